"""A conversation's line, and what happens when it is another's."""

import asyncio
from datetime import timedelta

import pytest

from services.agent_worker.actions.serve_conversation import Fenced
from shared.ports.model import ModelAnswer
from tests.builders import CONVERSATION, call
from tests.unit.agent_worker.actions.workroom import Room


def asks(name: str = "read") -> ModelAnswer:
    return ModelAnswer("", tool_calls=[call(name)], stop_reason="tool_use")


async def test_everything_in_the_line_is_answered_in_order() -> None:
    """One wake-up is enough, however many wait."""
    room = await Room(ModelAnswer("one"), ModelAnswer("two"), ModelAnswer("three")).open()
    runs = [await room.accept(text) for text in ("1", "2", "3")]
    await room.serve()

    assert [(await room.outcome(run))["reply"] for run in runs] == ["one", "two", "three"]
    assert room.roles() == ["user", "assistant"] * 3
    assert room.bus.owners == {}


async def test_serving_twice_is_serving_once() -> None:
    """Wake-ups come twice."""
    room = await Room(ModelAnswer("one")).open()
    await room.answer()
    await room.serve()

    assert len(room.model.requests) == 1


async def test_two_workers_with_the_same_wake_up_answer_once() -> None:
    """The store decides."""
    hold = asyncio.Event()
    room = await Room(hold, ModelAnswer("one")).open()
    run = await room.accept()
    serving = asyncio.create_task(room.serve())
    while not room.model.requests:
        await asyncio.sleep(0)
    peer = await Room(world=room.world, bus=room.bus).open()
    await peer.serve()
    hold.set()
    await serving

    assert (await room.outcome(run))["reply"] == "one"
    assert peer.model.requests == []


@pytest.mark.parametrize("write", [1, 2, 3])
async def test_who_has_lost_the_claim_writes_nothing_more(write: int) -> None:
    """Not even a word to the person: the heir speaks."""
    room = await Room(asks("exec"), ModelAnswer("mine")).open()
    run = await room.accept()
    room.runs.lose_claim_at = write
    await room.serve()

    assert len(room.runs.writes) == write - 1
    assert list(await room.world.inbox.outcomes([run])) == []
    assert not any(event.terminal for event in await room.events(run))
    assert await room.every_call_is_booked()


async def test_a_claim_lost_for_real_is_noticed_at_the_next_step() -> None:
    """The call was bought; it is booked, and the heir's answer is the only one."""
    hold = asyncio.Event()
    room = await Room(hold, ModelAnswer("late")).open()
    run = await room.accept()
    serving = asyncio.create_task(room.serve())
    while not room.model.requests:
        await asyncio.sleep(0)
    heir = await room.heir(ModelAnswer("heir"))
    await heir.serve()
    hold.set()
    await serving

    assert (await room.outcome(run))["reply"] == "heir"
    assert room.roles() == ["user", "assistant"]
    assert await room.every_call_is_booked()
    (done,) = [event for event in await room.events(run) if event.terminal]
    assert done.data["reply"] == "heir"


async def test_a_draining_worker_hands_back_between_two_steps() -> None:
    """A deploy costs nobody an answer or an attempt, and what was bought is not bought again."""
    room = await Room(asks()).open()

    async def drain(_: object) -> str:
        room.desk.draining.set()
        return "text"

    room.tools.doing["read"] = drain
    run = await room.accept()
    await room.serve()
    assert [wake_up.conversation for wake_up in room.bus.waiting] == [CONVERSATION]
    assert room.bus.owners == {}
    assert await room.every_call_is_booked()

    heir = await Room(ModelAnswer("done"), world=room.world, bus=room.bus, tools=room.tools).open()
    await heir.serve()
    outcome = await heir.outcome(run)
    assert (outcome["reply"], outcome["turns"]) == ("done", 2)
    assert room.world.tables.runs[run].attempts == 1
    assert len(heir.model.requests[0].messages) == 3
    assert await heir.every_call_is_booked()


async def test_a_draining_worker_claims_nothing_and_passes_on_what_it_was_woken_for() -> None:
    """It is on its way out; what it had read would have to wait for somebody's sweep."""
    room = await Room().open()
    run = await room.accept()
    room.desk.draining.set()
    await room.serve()

    assert room.world.tables.runs[run].state == "accepted"
    assert [wake_up.conversation for wake_up in room.bus.waiting] == [CONVERSATION]


async def test_what_stands_behind_the_last_run_of_a_draining_worker_is_a_peers_at_once() -> None:
    """The goodbye may have to wait for other conversations; this one must not wait with it."""
    hold = asyncio.Event()
    room = await Room(hold, ModelAnswer("one")).open()
    first, second = await room.accept("1"), await room.accept("2")
    serving = asyncio.create_task(room.serve())
    async with asyncio.timeout(5):
        while not room.model.requests:
            await asyncio.sleep(0.001)
    room.desk.draining.set()
    hold.set()
    await serving
    assert (await room.outcome(first))["reply"] == "one"
    assert [wake_up.conversation for wake_up in room.bus.waiting] == [CONVERSATION]

    heir = await Room(ModelAnswer("two"), world=room.world, bus=room.bus).open()
    await heir.serve()
    assert (await heir.outcome(second))["reply"] == "two"
    assert {each.attempts for each in room.world.tables.runs.values()} == {1}


async def test_a_claim_that_crossed_the_drain_is_left_to_a_peer() -> None:
    """It was asked before and refused after; that is no reason to die in the middle of a drain."""
    room = await Room().open()
    await room.accept()
    serving = asyncio.create_task(room.serve())
    await asyncio.sleep(0)
    room.desk.draining.set()
    await room.world.fleet.drain(room.worker)
    await serving
    assert [wake_up.conversation for wake_up in room.bus.waiting] == [CONVERSATION]


async def test_a_fenced_worker_stops_everything() -> None:
    """Its conversations are another's; only a new process can help."""
    room = await Room().open()
    await room.accept()
    await room.world.fence(room.worker)
    with pytest.raises(Fenced):
        await room.serve()


async def test_a_step_that_could_not_be_stored_is_left_to_whoever_comes() -> None:
    """Postgres was away for longer than a step can wait: nothing is told, nothing is lost."""
    room = await Room(ModelAnswer("lost"), ModelAnswer("again")).open()
    run = await room.accept()
    room.runs.refuse = 1
    await room.serve()
    assert list(await room.world.inbox.outcomes([run])) == []
    await room.serve()

    assert (await room.outcome(run))["reply"] == "again"
    assert room.world.tables.runs[run].attempts == 1  # an outage is nobody's attempt


async def test_an_end_whose_answer_got_lost_is_told_by_the_sweep() -> None:
    """It was stored; the worker could not know."""
    room = await Room(ModelAnswer("hi")).open()
    run = await room.accept()
    room.runs.lose_answers = 1
    await room.serve()
    await room.serve()

    assert (await room.outcome(run))["reply"] == "hi"
    assert len(room.model.requests) == 1
    room.clock.advance(1)
    (ended,) = await room.world.runs.unpublished(older_than=timedelta(0), limit=5)
    assert ended.run == run


async def test_a_claim_that_is_put_off_keeps_the_wake_up() -> None:
    """Postgres is away; the entry is what brings somebody back."""
    room = await Room(ModelAnswer("hi")).open()
    await room.accept()

    room.runs.refuse_claims = 1
    await room.serve(entry="7-0")
    assert room.bulletin.batches == []
    await room.serve(entry="7-0")
    assert [entry for batch in room.bulletin.batches for entry in batch.acknowledge] == ["7-0"]
