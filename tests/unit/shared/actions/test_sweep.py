"""What falls between the chairs is found in the store."""

import asyncio
import random
from datetime import timedelta

import pytest

from shared.actions.sweep import ABANDONED, KEPT, forget_abandoned, publish_unpublished, refill, sweep_for_ever
from shared.adapters.inmemory.bus import InMemoryBus
from shared.adapters.inmemory.clock import ManualClock
from shared.errors import TryLater
from shared.ports.bus import Batch, WakeUp
from tests.builders import final_write, new_run
from tests.faults import FlakyBulletin
from tests.runs_worlds import InMemoryWorld


async def test_an_end_that_was_never_told_is_told_once() -> None:
    """A worker may die between the commit and Redis; whoever waits must not wait for ever."""
    world = InMemoryWorld()
    bus = InMemoryBus(world.clock)
    world.me = await world.hire()
    await world.accept(new_run())
    claim = await world.claim()
    await world.store(claim, final_write(claim, "hi"))
    assert await publish_unpublished(world.runs, bus, world.clock) == 0  # it may be on its normal way
    world.clock.advance(1.1)
    away = FlakyBulletin(bus)
    away.away = True
    with pytest.raises(TryLater):
        await publish_unpublished(world.runs, away, world.clock)
    assert await publish_unpublished(world.runs, bus, world.clock) == 1
    assert await publish_unpublished(world.runs, bus, world.clock) == 0

    assert (await bus.results([claim.run]))[claim.run]["reply"] == "hi"
    (event,) = await bus.read(claim.run, after="0-0")
    assert event.type == "done"


async def test_an_emptied_redis_is_given_back_the_ends_of_the_last_hour() -> None:
    """Futures are promised for an hour, whatever happens to Redis in between."""
    world = InMemoryWorld()
    bus = InMemoryBus(world.clock)
    world.me = await world.hire()
    assert await refill(world.runs, bus)  # a Redis that was never used is empty too
    assert not await refill(world.runs, bus)
    await world.accept(new_run())
    claim = await world.claim()
    await world.store(claim, final_write(claim, "hi"))
    await publish_unpublished(world.runs, bus, world.clock, older_than=timedelta(0))
    bus.forget_everything()
    assert await bus.results([claim.run]) == {}
    assert await refill(world.runs, bus)
    world.clock.advance(1.1)
    assert await publish_unpublished(world.runs, bus, world.clock) == 1
    assert (await bus.results([claim.run]))[claim.run]["reply"] == "hi"
    world.clock.advance(KEPT.total_seconds())
    bus.forget_everything()
    assert await refill(world.runs, bus)
    assert await publish_unpublished(world.runs, bus, world.clock) == 0


async def test_an_end_that_is_noted_after_the_refill_is_told_again() -> None:
    """It was told just before Redis was emptied, and the note came after everything was told again."""
    world = InMemoryWorld()
    bus = InMemoryBus(world.clock)
    world.me = await world.hire()
    await refill(world.runs, bus)
    await world.accept(new_run())
    claim = await world.claim()
    await world.store(claim, final_write(claim, "hi"))
    world.clock.advance(1.0)
    await bus.publish(Batch(finished=await world.runs.unpublished(older_than=timedelta(0), limit=9)))
    world.clock.advance(0.1)
    bus.forget_everything()
    assert await refill(world.runs, bus)
    world.clock.advance(0.1)
    await world.runs.published([claim.run], told_within=timedelta(seconds=0.2))
    world.clock.advance(1.1)

    assert await publish_unpublished(world.runs, bus, world.clock) == 1
    assert claim.run in await bus.results([claim.run])
    assert await publish_unpublished(world.runs, bus, world.clock) == 0


async def test_wake_ups_of_dead_readers_are_dropped() -> None:
    """The work itself is in Postgres; the entry would stay for ever."""
    world = InMemoryWorld()
    bus = InMemoryBus(world.clock)
    await bus.wake([WakeUp("a"), WakeUp("b")])
    await bus.take(limit=1, wait=timedelta(0))
    await forget_abandoned(bus, bus)
    assert len(bus.waiting) == 2
    world.clock.advance(ABANDONED.total_seconds())
    await forget_abandoned(bus, bus)

    assert [wake_up.conversation for wake_up in bus.waiting] == ["b"]


async def test_the_sweep_goes_on_over_outages_and_never_in_step_with_others() -> None:
    """Every second, give or take a quarter; Postgres being away is no reason to stop."""
    clock, swept = ManualClock(), 0

    async def sweep() -> None:
        nonlocal swept
        swept += 1
        if swept == 2:
            raise TryLater("Postgres can't be reached")
        if swept == 50:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await sweep_for_ever(sweep, clock, random.Random(3))  # noqa: S311 - spreads sweeps

    assert len(clock.slept) == 50
    assert all(0.75 <= pause <= 1.25 for pause in clock.slept)
    assert max(clock.slept) - min(clock.slept) > 0.3
