"""A stream shows everything that was told, in order, and ends once."""

import asyncio
from collections.abc import Sequence

from services.gateway.actions import follow_run as following
from services.gateway.actions.follow_run import BEGINNING, follow_run
from shared.adapters.inmemory.bus import InMemoryBus
from shared.messages.run_events import RunEvent, event_id, terminal_id
from shared.ports.bus import Batch
from shared.ports.runs import FinishedRun
from tests.builders import final_write, new_run
from tests.runs_worlds import InMemoryWorld


async def ended_world() -> tuple[InMemoryWorld, InMemoryBus, FinishedRun]:
    """A run that has ended in the store; nothing was told of it yet."""
    world = InMemoryWorld()
    world.me = await world.hire()
    await world.accept(new_run())
    claim = await world.claim()
    await world.store(claim, final_write(claim, "hello there"))
    (finished,) = await world.runs.outcomes([claim.run])
    return world, InMemoryBus(world.clock), finished


async def follow(world: InMemoryWorld, bus: InMemoryBus, finished: FinishedRun) -> Sequence[RunEvent]:
    events = follow_run(finished.run, after=BEGINNING, streams=bus, announcements=bus, inbox=world.runs)
    return [event async for event in events if event is not None]


async def test_the_end_does_not_overtake_the_last_words() -> None:
    """The end is in Postgres a moment before the text is in Redis; whoever looks in between must wait for the text."""
    world, bus, finished = await ended_world()
    await bus.publish(Batch(events=[(finished.run, RunEvent(event_id(1, 0, 1), "attempt", {}))]))
    watching = asyncio.create_task(follow(world, bus, finished))
    await asyncio.sleep(following.LOOK_AGAIN.total_seconds() + 0.3)
    delta = RunEvent(event_id(1, 0, 12), "delta", {"text": "hello there"})
    await bus.publish(Batch(events=[(finished.run, delta)], finished=[finished]))
    events = await asyncio.wait_for(watching, 5)

    assert [event.type for event in events] == ["attempt", "delta", "done"]


async def test_a_stream_that_is_gone_ends_at_once_from_postgres() -> None:
    """Yesterday's run: Redis has forgotten it, Postgres has not."""
    world, bus, finished = await ended_world()
    events = await asyncio.wait_for(follow(world, bus, finished), 0.5)
    assert [(event.type, event.data["reply"]) for event in events] == [("done", "hello there")]


async def test_an_end_that_is_never_told_comes_from_postgres_in_the_end() -> None:
    """The worker died between the commit and Redis, and the sweep has not been there yet."""
    world, bus, finished = await ended_world()
    await bus.publish(Batch(events=[(finished.run, RunEvent(event_id(1, 0, 1), "attempt", {}))]))
    events = await asyncio.wait_for(follow(world, bus, finished), 6)
    assert [event.type for event in events] == ["attempt", "done"]
    assert events[-1].id == terminal_id(1)


async def test_whoever_has_seen_the_end_is_not_kept_waiting() -> None:
    """A client that reconnects with the last id gets an empty, closed stream."""
    world, bus, finished = await ended_world()
    events = follow_run(finished.run, after=finished.terminal, streams=bus, announcements=bus, inbox=world.runs)
    assert [event async for event in events if event is not None] == []
