"""What windows of requests promise, asked of those of a process and of those in Redis."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Protocol

import pytest

from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.inmemory.windows import InMemoryWindows
from shared.adapters.redis.connection import Redis
from shared.adapters.redis.shared_line import SharedLine
from shared.adapters.redis.windows import RedisWindows
from shared.messages import routes
from shared.ports.windows import Place, Windows

MINUTE = timedelta(minutes=1)
SHORT = timedelta(milliseconds=400)


class World(Protocol):
    windows: Windows

    async def wait(self, seconds: float) -> None: ...


class InMemoryWorld:
    """Time passes when it is told to."""

    def __init__(self) -> None:
        self._clock = ManualClock()
        self.windows: Windows = InMemoryWindows(self._clock)

    async def wait(self, seconds: float) -> None:
        self._clock.advance(seconds)


class RedisWorld:
    """Time passes by itself."""

    def __init__(self, client: Redis, line: SharedLine) -> None:
        self.windows: Windows = RedisWindows(client, ask=line.ask, within=timedelta(seconds=5))

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@pytest.fixture(params=["inmemory", "redis"])
async def world(request: pytest.FixtureRequest, redis_client: Redis) -> AsyncIterator[World]:
    if request.param == "inmemory":
        yield InMemoryWorld()
        return
    line = SharedLine(redis_client)
    yield RedisWorld(redis_client, line)
    await line.close()


async def take(world: World, times: int, *, limit: int, per: timedelta = MINUTE, name: str = "w") -> list[Place]:
    return [await world.windows.take(name, limit=limit, per=per) for _ in range(times)]


async def test_there_are_as_many_places_as_the_limit_says(world: World) -> None:
    """And everybody is told how many are left, and when to come back."""
    places = await take(world, 5, limit=3)
    assert [place.taken for place in places] == [True, True, True, False, False]
    assert [place.left for place in places] == [2, 1, 0, 0, 0]
    assert all(timedelta(seconds=30) < place.frees_in <= MINUTE for place in places)


async def test_windows_of_other_names_have_places_of_their_own(world: World) -> None:
    """One key that asks too often is nobody else's trouble."""
    await take(world, 3, limit=2)
    (place,) = await take(world, 1, limit=2, name="other")
    assert place == Place(taken=True, left=1, frees_in=place.frees_in)


async def test_a_place_is_free_again_when_its_time_has_passed(world: World) -> None:
    """The window slides: what was done half a window ago still counts, what was done a whole one ago does not."""
    await take(world, 1, limit=2, per=SHORT)
    await world.wait(0.25)
    await take(world, 1, limit=2, per=SHORT)
    (refused,) = await take(world, 1, limit=2, per=SHORT)
    assert not refused.taken
    assert refused.frees_in < timedelta(milliseconds=200)

    await world.wait(refused.frees_in.total_seconds() + 0.01)
    first, second = await take(world, 2, limit=2, per=SHORT)
    assert (first.taken, second.taken) == (True, False)


async def test_a_refusal_takes_no_place(world: World) -> None:
    """Whoever asks on and on is let in again at the same time as whoever waits."""
    await take(world, 1, limit=1, per=SHORT)
    for _ in range(5):
        await take(world, 1, limit=1, per=SHORT)
        await world.wait(0.05)
    await world.wait(0.2)
    (place,) = await take(world, 1, limit=1, per=SHORT)
    assert place.taken


async def test_of_many_at_once_no_more_get_in_than_may(world: World) -> None:
    """Requests come over many connections to many gateways."""
    places = await asyncio.gather(*(world.windows.take("w", limit=10, per=MINUTE) for _ in range(50)))
    assert sum(place.taken for place in places) == 10


async def test_a_limit_that_was_lowered_holds_at_once(world: World) -> None:
    """It is changed by starting gateways anew, one after the other."""
    await take(world, 5, limit=10)
    assert [place.taken for place in await take(world, 2, limit=3)] == [False, False]


async def test_redis_keeps_a_window_no_longer_than_it_is(redis_client: Redis) -> None:
    """Nothing is left behind by whoever came once."""
    windows = RedisWindows(redis_client)
    for _ in range(3):
        await windows.take("read:key:ada", limit=2, per=MINUTE)
    key = routes.rate_limit("read:key:ada")
    assert await redis_client.llen(key) == 2
    assert 0 < await redis_client.pttl(key) <= 60_000


async def test_a_clock_of_the_server_that_was_set_back_shuts_nobody_out(redis_client: Redis) -> None:
    """Times that lie ahead would count for as long as the clock was off."""
    seconds, _ = await redis_client.time()
    await redis_client.rpush(routes.rate_limit("w"), *[(seconds + 3600) * 1000] * 3)
    place = await RedisWindows(redis_client).take("w", limit=2, per=MINUTE)
    assert (place.taken, place.left) == (True, 1)


async def test_a_window_full_of_old_times_still_has_room(redis_client: Redis) -> None:
    """They are taken away some at a time, so that nobody waits for it; meanwhile they keep nobody out."""
    seconds, _ = await redis_client.time()
    await redis_client.rpush(routes.rate_limit("w"), *[(seconds - 120) * 1000] * 500)
    places = [await RedisWindows(redis_client).take("w", limit=300, per=MINUTE) for _ in range(10)]
    assert all(place.taken for place in places)
    assert places[-1].left == 290


async def test_the_windows_of_a_process_are_bounded() -> None:
    """Whoever comes under a million addresses must not fill its memory."""
    windows = InMemoryWindows(ManualClock(), most=2)
    for name in ("a", "b", "a", "c"):
        await windows.take(name, limit=5, per=MINUTE)
    lefts = [(await windows.take(name, limit=5, per=MINUTE)).left for name in ("a", "b")]
    assert lefts == [2, 4]
