"""Streams where nothing happens are looked after together: one question a second, and a sign of life now and then."""

from collections.abc import Mapping
from uuid import UUID

import pytest

from services.gateway.actions.watch_runs import AT_ONCE, LOOK_AGAIN, ROUSED_AFTER, RunWatch, Watched
from shared.adapters.inmemory.bus import InMemoryBus
from shared.adapters.inmemory.clock import ManualClock
from shared.errors import TryLater
from shared.ids import new_id
from shared.ports.history import ToldSoFar


class Steps:
    """How runs stand, and how often it was asked for."""

    def __init__(self) -> None:
        self.stands: dict[UUID, str] = {}
        self.asked: list[int] = []
        self.away = False

    async def told(self, run: UUID, *, after: str) -> ToldSoFar:
        raise AssertionError(f"nobody asks for {run} after {after}")

    async def moved(self, known: Mapping[UUID, str]) -> Mapping[UUID, str]:
        self.asked.append(len(known))
        if self.away:
            raise TryLater("Postgres can't be reached")
        return {run: text for run, text in self.stands.items() if known.get(run, text) != text}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def steps() -> Steps:
    return Steps()


@pytest.fixture
def watch(steps: Steps, clock: ManualClock) -> RunWatch:
    return RunWatch(InMemoryBus(clock), steps, clock)


def settled(watched: Watched) -> bool:
    """A follower that has seen all there is; whether it was told to look at what is stored."""
    watched.doubtful = False
    return watched.wakes()


async def test_one_question_is_asked_for_all_who_are_silent(watch: RunWatch, steps: Steps, clock: ManualClock) -> None:
    """And only who has more to read is roused."""
    runs = [new_id() for _ in range(AT_ONCE + 1)]
    steps.stands = dict.fromkeys(runs, "0-1")
    followers = [watch.follow(run) for run in runs]
    watched = [follower.__enter__() for follower in followers]
    for one in watched:
        settled(one)
    clock.advance(LOOK_AGAIN.total_seconds())
    await watch.look()
    assert steps.asked == [AT_ONCE, 1]
    assert all(settled(one) for one in watched)  # how they stand was not known yet
    steps.stands[runs[3]] = "1-5"
    clock.advance(LOOK_AGAIN.total_seconds())
    await watch.look()
    assert [one.run for one in watched if one.nudge.is_set()] == [runs[3]]
    for follower in followers:
        follower.__exit__(None, None, None)
    clock.advance(LOOK_AGAIN.total_seconds())
    await watch.look()
    assert steps.asked == [AT_ONCE, 1] * 2


async def test_who_doubts_is_roused_each_second_until_it_has_looked(
    watch: RunWatch, steps: Steps, clock: ManualClock
) -> None:
    """Also while Postgres does not say how the runs stand: its answer to one may be what was missing."""
    steps.away = True
    with watch.follow(new_id()) as watched:
        watched.wakes()
        for _ in range(3):
            clock.advance(LOOK_AGAIN.total_seconds())
            await watch.look()
            assert watched.wakes()
        settled(watched)
        clock.advance(LOOK_AGAIN.total_seconds())
        await watch.look()
        assert not watched.nudge.is_set()


async def test_who_says_nothing_for_long_is_roused_for_a_sign_of_life(
    watch: RunWatch, steps: Steps, clock: ManualClock
) -> None:
    """Every fifteen seconds at least, and without asking what is stored."""
    with watch.follow(new_id()) as watched:
        settled(watched)
        roused = 0
        for _ in range(45):
            clock.advance(LOOK_AGAIN.total_seconds())
            await watch.look()
            if watched.nudge.is_set():
                roused += 1
                assert not watched.wakes()
    assert roused == 45 // ROUSED_AFTER.total_seconds()


async def test_all_are_roused_when_the_gateway_goes(watch: RunWatch) -> None:
    """Each stream then ends between two events."""
    with watch.follow(new_id()) as one, watch.follow(new_id()) as other:
        settled(one)
        settled(other)
        watch.rouse_all()
        assert one.nudge.is_set()
        assert other.nudge.is_set()
