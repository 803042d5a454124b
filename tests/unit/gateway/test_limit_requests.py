"""Requests pass as often as the limits say; without Redis a process counts for itself."""

from datetime import timedelta

import pytest

from services.gateway.actions.limit_requests import ASK_AGAIN_AFTER, Limits, Turn, Turnstile
from services.gateway.rules.login_address import login_address
from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.inmemory.windows import InMemoryWindows
from shared.domain.api_key import OPERATOR, ApiKey
from shared.errors import TryLater
from shared.ports.windows import Place

ADA, BOB = ApiKey("ada"), ApiKey(OPERATOR)
MINUTE = timedelta(minutes=1)


class SharedWindows:
    """Windows that can be away."""

    def __init__(self, clock: ManualClock) -> None:
        self._windows = InMemoryWindows(clock)
        self.is_away = False
        self.asked = 0

    async def take(self, name: str, *, limit: int, per: timedelta) -> Place:
        self.asked += 1
        if self.is_away:
            raise TryLater("Redis can't be reached")
        return await self._windows.take(name, limit=limit, per=per)


class World:
    def __init__(self, *, read: int = 3, work: int = 2, failed_logins: int = 2) -> None:
        self.clock = ManualClock()
        self.shared = SharedWindows(self.clock)
        limits = Limits(read=read, work=work, failed_logins=failed_logins, per=MINUTE)
        self.turnstile = Turnstile(limits, self.shared, InMemoryWindows(self.clock), self.clock)

    async def passes(self, times: int) -> list[bool]:
        turns = [await self.turnstile.request(ADA, "read") for _ in range(times)]
        return [turn is None or turn.passes for turn in turns]


async def test_looking_and_working_have_windows_of_their_own_and_so_has_each_key() -> None:
    """Who looks often can still send a message."""
    world = World()
    assert await world.passes(4) == [True, True, True, False]
    assert await world.turnstile.request(ADA, "work") == Turn(passes=True, limit=2, left=1, frees_in=60)
    assert await world.turnstile.request(BOB, "read") == Turn(passes=True, limit=3, left=2, frees_in=60)


async def test_what_is_told_is_whole_seconds_and_never_too_few() -> None:
    """Whoever comes back after what was told is let in."""
    world = World(work=1)
    await world.turnstile.request(ADA, "work")
    world.clock.advance(0.4)
    assert await world.turnstile.request(ADA, "work") == Turn(passes=False, limit=1, left=0, frees_in=60)
    world.clock.advance(60)
    turn = await world.turnstile.request(ADA, "work")
    assert turn is not None
    assert turn.passes


async def test_a_limit_of_nothing_is_no_limit() -> None:
    """And costs nothing."""
    world = World(read=0, failed_logins=0)
    assert await world.passes(100) == [True] * 100
    assert await world.turnstile.failed_login("127.0.0.1") is None
    assert world.shared.asked == 0


async def test_while_redis_is_away_the_process_counts_for_itself_and_hardly_waits_for_it() -> None:
    """The first request of each second finds out whether it is back."""
    world = World()
    world.shared.is_away = True
    assert await world.passes(4) == [True, True, True, False]
    assert world.shared.asked == 1
    world.clock.advance(ASK_AGAIN_AFTER)
    assert await world.passes(2) == [False, False]
    assert world.shared.asked == 2
    world.shared.is_away = False
    world.clock.advance(ASK_AGAIN_AFTER)
    assert await world.passes(4) == [True, True, True, False]
    assert world.shared.asked == 6


@pytest.mark.parametrize(
    ("host", "counted_as"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("/run/lucyd.sock", "local"),
        ("", "local"),
        (None, "local"),
    ],
)
def test_guesses_of_one_household_count_together(host: str | None, counted_as: str) -> None:
    """With IPv6 everybody has more addresses than there are guesses."""
    assert login_address(host) == counted_as
