"""Messages that come while a run goes on, or in a row: what they ask for is what happens to them."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from services.agent_worker.actions.serve_conversation import Served
from shared.domain.run import NewRun
from shared.errors import Conflict
from shared.ports.model import ModelAnswer
from tests.builders import CHAT, CONVERSATION, chat_message, new_run
from tests.unit.agent_worker.actions.workroom import Room, Tools, asked_texts, asks, until, with_manner

DEBOUNCE = timedelta(milliseconds=500)


async def sends_during(room: Room, name: str, *messages: NewRun) -> None:
    """Have these messages come while the tool of that name runs for the first time."""
    waiting = list(messages)

    async def doing(_: object) -> str:
        while waiting:
            await room.send(waiting.pop(0))
        return f"{name} did it"

    room.tools.doing[name] = doing


def state(room: Room, run: UUID) -> tuple[str, UUID | None]:
    row = room.world.tables.runs[run]
    return row.state, row.merged_into


async def test_a_steering_text_reaches_the_next_request_to_the_model() -> None:
    """It is taken in between two turns; its own run is merged and ends as its leader does."""
    room = await Room(asks("read"), ModelAnswer("as you wish")).open()
    steering = new_run("rather in French", when_busy="steer")
    await sends_during(room, "read", steering)
    run = await room.accept("translate this")
    await room.serve()

    assert asked_texts(room.model.requests[1]) == ["translate this", "rather in French"]
    assert [message["role"] for message in room.model.requests[1].messages][-2:] == ["tool_results", "user"]
    assert state(room, steering.id) == ("merged", run)
    leader, follower = await room.outcome(run), await room.outcome(steering.id)
    assert (follower["reply"], follower["run_id"], follower["merged_into"]) == (
        "as you wish",
        str(steering.id),
        str(run),
    )
    assert leader["reply"] == "as you wish"
    assert [event.type for event in await room.events(steering.id)] == ["accepted", "merged"]
    assert room.roles() == ["user", "assistant", "tool_results", "user", "assistant"]
    assert room.all_calls_have_results()
    assert await room.every_call_is_booked()


async def test_what_stands_before_a_steering_text_is_taken_in_with_it() -> None:
    """Otherwise the later message would be answered before the earlier one."""
    room = await Room(asks("read"), ModelAnswer("both"), ModelAnswer("alone")).open()
    queued, steering, after = new_run("first"), new_run("second", when_busy="steer"), new_run("third")
    await sends_during(room, "read", queued, steering, after)
    run = await room.accept("go")
    await room.serve()

    assert asked_texts(room.model.requests[1]) == ["go", "first", "second"]
    assert [state(room, each.id) for each in (queued, steering)] == [("merged", run)] * 2
    assert (await room.outcome(after.id))["reply"] == "alone"


async def test_a_steering_text_after_the_last_round_runs_by_itself() -> None:
    """No step absorbed it, so nothing of it is lost."""
    hold = asyncio.Event()
    room = await Room(asks("read"), hold, ModelAnswer("done"), ModelAnswer("and this")).open()
    run = await room.accept("go")
    serving = asyncio.create_task(room.serve())
    await until(lambda: len(room.model.requests) == 2)
    steering = new_run("one more thing", when_busy="steer")
    await room.send(steering)
    hold.set()
    await serving

    assert (await room.outcome(run))["reply"] == "done"
    outcome = await room.outcome(steering.id)
    assert (outcome["reply"], outcome.get("merged_into")) == ("and this", None)


async def test_a_steering_text_in_an_idle_conversation_is_a_message() -> None:
    """There is nothing to steer."""
    room = await Room(ModelAnswer("hi")).open()
    assert (await room.answer("hello", when_busy="steer"))["reply"] == "hi"


async def test_an_absorbed_text_is_not_lost_with_its_worker() -> None:
    """It was stored with the step: the heir's first request has it, once."""
    room = await Room(asks("read"), asyncio.Event()).open()
    steering = new_run("rather in French", when_busy="steer")
    await sends_during(room, "read", steering)
    run = await room.accept("go")
    serving = asyncio.create_task(room.serve())
    await until(lambda: len(room.model.requests) == 2)
    heir = await room.heir(ModelAnswer("oui"))
    await heir.serve()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)

    assert asked_texts(heir.model.requests[0]) == ["go", "rather in French"]
    assert (await heir.outcome(run))["reply"] == (await heir.outcome(steering.id))["reply"] == "oui"


async def test_a_cancelled_leader_takes_what_it_absorbed_along() -> None:
    """It was said to this run."""
    room = await Room(asks("read"), asyncio.Event()).open()
    steering = new_run("faster", when_busy="steer")
    await sends_during(room, "read", steering)
    run = await room.accept("go")
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await until(lambda: len(room.model.requests) == 2)
        await room.cancel(steering.id)  # who was merged stands for the leader
        await until(lambda: room.world.tables.runs[run].finished_at is not None)
        await asyncio.sleep(0.01)
        await room.desk.outlet.flush()

    assert (await room.outcome(run))["state"] == "cancelled"
    assert (await room.outcome(steering.id))["state"] == "cancelled"
    assert room.all_calls_have_results()


async def test_an_interrupt_ends_what_is_in_hand_and_stands_first() -> None:
    """The newest word counts now; what waited keeps its place behind it."""
    room = await Room(asyncio.Event(), ModelAnswer("the new one"), ModelAnswer("the queued one")).open()
    run = await room.accept("a long errand")
    queued = await room.accept("later")
    interrupt = new_run("stop, do this", when_busy="interrupt")
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await until(lambda: room.model.requests)
        assert (await room.send(interrupt)).cancels == run
        await until(lambda: room.world.tables.runs[queued].finished_at is not None)
        await until(lambda: hand.count == 0)
        await room.desk.outlet.flush()

    outcome = await room.outcome(run)
    assert (outcome["state"], outcome["error"]) == ("cancelled", "A newer message took its place.")
    assert [asked_texts(request)[-1] for request in room.model.requests] == ["a long errand", "stop, do this", "later"]
    assert (await room.outcome(interrupt.id))["reply"] == "the new one"
    assert room.all_calls_have_results()
    assert await room.every_call_is_booked()


async def test_an_interrupt_in_a_round_of_tools_is_not_taken_in_by_the_run_it_ends() -> None:
    """A steering text beside it must not end with that run either."""
    room = await Room(asks("read"), ModelAnswer("new"), ModelAnswer("steered")).open()
    steering, interrupt = new_run("steer", when_busy="steer"), new_run("stop", when_busy="interrupt")
    await sends_during(room, "read", steering, interrupt)
    run = await room.accept("go")
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await until(lambda: room.tools.done)
        await until(lambda: room.world.tables.runs[steering.id].finished_at is not None)
        await until(lambda: hand.count == 0)
        await room.desk.outlet.flush()

    assert (await room.outcome(run))["state"] == "cancelled"
    assert (await room.outcome(interrupt.id))["reply"] == "new"
    assert (await room.outcome(steering.id))["reply"] == "steered"


async def test_a_message_that_wants_no_busy_conversation_is_refused() -> None:
    """Decided by accept; nothing of it is stored."""
    room = await Room(asyncio.Event(), ModelAnswer("hi")).open()
    run = await room.accept()
    with pytest.raises(Conflict):
        await room.send(new_run("now or never", when_busy="reject"))
    assert list(room.world.tables.runs) == [run]


async def test_messages_in_a_row_are_answered_as_one_when_the_last_is_old_enough() -> None:
    """People write in pieces. Waiting holds no slot, and the conversation is looked at again in time."""
    room = await Room(ModelAnswer("all three"), manner=with_manner(debounce=DEBOUNCE)).open()
    sent = [chat_message(text) for text in ("hello", "I have", "a question")]
    await room.send(sent[0])
    async with room.at_work() as hand:
        hand.take(CHAT)
        await until(lambda: hand.count == 0)
        assert room.model.requests == []
        for new in sent[1:]:
            room.clock.advance(0.4)
            await room.send(new)
        room.clock.advance(0.5)
        await until(lambda: room.world.tables.runs[sent[0].id].finished_at is not None)  # nobody wakes it
        await until(lambda: hand.count == 0)
        await room.desk.outlet.flush()

    assert asked_texts(room.model.requests[0]) == ["hello\nI have\na question"]
    assert [state(room, new.id) for new in sent] == [("done", None), *[("merged", sent[0].id)] * 2]
    assert [row.text for row in await room.world.deliveries()] == ["all three"]


async def test_a_refused_claim_says_when_to_come_again() -> None:
    """To the millisecond: nobody has to ask every second."""
    room = await Room(manner=with_manner(debounce=DEBOUNCE)).open()
    await room.send(chat_message())
    room.clock.advance(0.2)
    assert await room.serve(CHAT) == Served(again_in=timedelta(milliseconds=300))


async def test_callers_over_http_are_never_merged() -> None:
    """Each of them awaits a reply of their own."""
    room = await Room(ModelAnswer("one"), ModelAnswer("two"), manner=with_manner(debounce=DEBOUNCE)).open()
    first, second = await room.accept("1"), await room.accept("2")
    await room.serve()

    assert [(await room.outcome(run))["reply"] for run in (first, second)] == ["one", "two"]


async def test_a_draining_worker_leaves_a_row_of_messages_to_its_peers() -> None:
    """It must not take the conversation again after it was told to go."""
    room = await Room(manner=with_manner(debounce=timedelta(milliseconds=20)), tools=Tools({})).open()
    await room.send(chat_message())
    async with room.at_work() as hand:
        hand.take(CHAT)
        await until(lambda: hand.count == 0)
        room.desk.draining.set()
        room.clock.advance(1)
        await asyncio.sleep(0.05)
        assert hand.count == 0
    assert room.model.requests == []
