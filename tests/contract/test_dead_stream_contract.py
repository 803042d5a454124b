"""What operators hear of runs that were given up, from the fake and from Redis."""

import asyncio

import pytest

from shared.ids import new_id
from shared.messages.run_events import terminal_id
from shared.ports.bus import Batch
from shared.ports.runs import FinishedRun
from tests.bus_worlds import BusWorld, InMemoryBusWorld, RedisBusWorld


@pytest.fixture(params=["inmemory", "redis"])
def bus(request: pytest.FixtureRequest) -> BusWorld:
    return InMemoryBusWorld() if request.param == "inmemory" else RedisBusWorld(request.getfixturevalue("redis_client"))


def given_up(**outcome: object) -> FinishedRun:
    whole = {"state": "dead", "error": "Four workers died with it.", "worker": "w4", "step": 2, "reply": "", **outcome}
    return FinishedRun(new_id(), "cli", terminal_id(4), whole)


async def test_a_run_that_was_given_up_is_announced_with_what_is_known(bus: BusWorld) -> None:
    """And its future is there like any other's."""
    dead = given_up()
    done = FinishedRun(new_id(), "cli", terminal_id(1), {"state": "done", "reply": "hi"})
    await bus.bulletin.publish(Batch(finished=[done, dead]))

    assert list(await bus.dead()) == [
        {
            "run": str(dead.run),
            "conversation": "cli",
            "reason": "Four workers died with it.",
            "worker": "w4",
            "step": "2",
        }
    ]
    assert (await bus.streams.results([dead.run]))[dead.run]["state"] == "dead"


async def test_it_is_announced_once_however_often_it_is_told(bus: BusWorld) -> None:
    """Every worker's sweep may find the same end, and tell it at the same moment."""
    dead = given_up()
    await asyncio.gather(*(bus.bulletin.publish(Batch(finished=[dead])) for _ in range(5)))
    await bus.bulletin.publish(Batch(finished=[dead]))
    assert len(await bus.dead()) == 1


async def test_after_redis_was_emptied_it_is_announced_again(bus: BusWorld) -> None:
    """What Redis should hold is told once more."""
    dead = given_up()
    await bus.bulletin.publish(Batch(finished=[dead]))
    await bus.forget_everything()
    await bus.bulletin.publish(Batch(finished=[dead]))
    assert len(await bus.dead()) == 1


async def test_messages_that_a_dead_run_had_taken_in_are_no_deaths_of_their_own(bus: BusWorld) -> None:
    """One entry for one thing to decide."""
    await bus.bulletin.publish(Batch(finished=[given_up(merged_into=str(new_id()))]))
    assert list(await bus.dead()) == []
