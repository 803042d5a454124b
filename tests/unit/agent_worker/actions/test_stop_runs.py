"""A run that somebody asks to end: wherever it is, it ends soon, once, and what it has done is said."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from services.agent_worker.actions.heed_control import stop_cancelled
from services.agent_worker.actions.run_tools import CALLS_END_WITHIN
from services.agent_worker.rules.effects import InDoubt
from shared.actions.cancel_run import CANCELLED
from shared.domain.run import Claim
from shared.errors import TryLater
from shared.ports.control import Command
from shared.ports.model import ModelAnswer
from tests.builders import CONVERSATION, chat_message
from tests.unit.agent_worker.actions.workroom import Room, Tools, asks, contents, until, with_manner

DOUBT = InDoubt("exec", "c0").for_person()


async def ended(room: Room, run: UUID) -> Mapping[str, Any]:
    """The outcome, once it is stored and told."""
    await until(lambda: room.world.tables.runs[run].finished_at is not None)
    await asyncio.sleep(0.01)
    await room.desk.outlet.flush()
    return await room.outcome(run)


def long_tool() -> tuple[asyncio.Event, Callable[[object], Awaitable[str]]]:
    """A tool that takes a minute unless it is stopped, and what says that it has begun."""
    begun = asyncio.Event()

    async def long(_: object) -> str:
        begun.set()
        await asyncio.sleep(60)
        return "never"

    return begun, long


async def all_is_well(room: Room) -> bool:
    """What holds after every end."""
    return room.all_calls_have_results() and await room.every_call_is_booked()


async def test_a_run_that_nobody_has_begun_is_never_begun() -> None:
    """The model is not asked, and nothing is paid."""
    room = await Room().open()
    run = await room.accept()
    assert (await room.cancel(run)).status == "cancelled"
    await room.serve()

    assert (await room.outcome(run))["state"] == "cancelled"
    assert room.model.requests == []


async def test_a_cancel_during_a_model_call_ends_the_run_at_once() -> None:
    """The call is out and booked as a guess; the message is as if never said, and the next one is answered."""
    room = await Room(asyncio.Event(), ModelAnswer("the next")).open()
    run = await room.accept()
    behind = await room.accept("and this?")
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await until(lambda: room.model.requests)
        began = time.monotonic()
        assert (await room.cancel(run)).status == "asked"
        outcome = await ended(room, run)
        assert time.monotonic() - began < 2.5
        assert (outcome["state"], outcome["error"], outcome["reply"]) == ("cancelled", CANCELLED, "")
        assert (await ended(room, behind))["reply"] == "the next"

    (terminal,) = [event for event in await room.events(run) if event.terminal]
    assert terminal.type == "cancelled"
    assert room.roles() == ["user", "assistant"]
    assert await all_is_well(room)
    assert [row.estimated for row in await room.world.booked()] == [True, False]


async def test_a_cancel_during_a_tool_that_heeds_it_leaves_the_act_in_doubt() -> None:
    """Nobody can tell how far it came: model and person are told, and it is not repeated."""
    begun, long = long_tool()
    room = await Room(asks("exec"), ModelAnswer("the next"), tools=Tools({"exec": "once"}, doing={"exec": long})).open()
    run = await room.accept()
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await begun.wait()
        began = time.monotonic()
        await room.cancel(run)
        outcome = await ended(room, run)
        assert time.monotonic() - began < 2.5

    assert (outcome["state"], outcome["notices"]) == ("cancelled", [DOUBT])
    assert room.roles() == ["user", "assistant", "tool_results", "assistant"]
    assert await all_is_well(room)
    assert (await room.answer("again"))["reply"] == "the next"
    assert len(room.tools.done) == 1


async def test_a_tool_that_does_not_heed_a_cancel_holds_its_run_up_for_three_seconds_at_most() -> None:
    """What it still does is nobody's any more; the run says that nobody can tell."""
    begun, over = asyncio.Event(), asyncio.Event()

    async def deaf(_: object) -> str:
        begun.set()
        end = time.monotonic() + 6
        while time.monotonic() < end:
            try:
                await asyncio.sleep(end - time.monotonic())
            except asyncio.CancelledError:
                continue
        over.set()
        return "done all the same"

    room = await Room(asks("exec"), tools=Tools({"exec": "once"}, doing={"exec": deaf})).open()
    run = await room.accept()
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await begun.wait()
        began = time.monotonic()
        await room.cancel(run)
        outcome = await ended(room, run)
        assert CALLS_END_WITHIN.total_seconds() <= time.monotonic() - began < 5.5
        await over.wait()
        await asyncio.sleep(0.1)  # the tool is over now, and has nobody to tell

    assert (outcome["state"], outcome["notices"]) == ("cancelled", [DOUBT])
    assert (await room.outcome(run))["notices"] == [DOUBT]
    assert await all_is_well(room)


async def test_the_result_of_a_call_that_was_done_is_not_in_doubt() -> None:
    """Two at once: one is over, the other is stopped. Only of the other nobody can tell."""
    quick_done = asyncio.Event()

    async def quick(_: object) -> str:
        quick_done.set()
        return "quick did it"

    async def slow(_: object) -> str:
        await asyncio.sleep(60)
        return "never"

    tools = Tools({"quick": "once", "slow": "once"}, doing={"quick": quick, "slow": slow})
    room = await Room(asks("quick", "slow"), tools=tools).open()
    run = await room.accept()
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await quick_done.wait()
        await until(lambda: len(room.runs.writes) == 2)
        await room.cancel(run)
        outcome = await ended(room, run)

    assert outcome["notices"] == [InDoubt("slow", "c1").for_person()]
    assert await all_is_well(room)


async def test_a_call_that_ends_as_it_is_stopped_is_not_in_doubt() -> None:
    """Its result was there, only not stored yet."""
    begun = asyncio.Event()

    async def last_word(_: object) -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "came to its end"
        return "never"

    room = await Room(asks("exec"), tools=Tools({"exec": "once"}, doing={"exec": last_word})).open()
    run = await room.accept()
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await begun.wait()
        await room.cancel(run)
        outcome = await ended(room, run)

    assert (outcome["state"], outcome["notices"]) == ("cancelled", [])
    (effect,) = room.world.tables.effects.values()
    assert effect.state == "done"


@pytest.mark.parametrize("write", [1, 2, 3])
async def test_a_cancel_while_a_step_is_being_stored_finds_history_whole(write: int) -> None:
    """The write is seen to its end; what is said next fits it, and its events are stored once."""
    room = await Room(asks("exec"), asks("exec"), ModelAnswer("never")).open()
    run = await room.accept()
    room.runs.pauses = [0.0] * (write - 1) + [0.1]
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await until(lambda: len(room.runs.writes) == write - 1 and not room.runs.pauses)
        await asyncio.sleep(0.02)
        await room.cancel(run)
        outcome = await ended(room, run)

    assert outcome["state"] == "cancelled"
    assert outcome["notices"] == []  # none of the round that was written down was begun
    assert len(room.runs.writes) == write + 1
    assert await all_is_well(room)
    stored = [event for (its, _, _), events in room.world.tables.run_steps.items() if its == run for event in events]
    sequences = [sequence for sequence, _, _ in stored]
    assert sequences == sorted(set(sequences))


async def test_a_cancel_while_a_proof_is_made_stores_no_call_without_its_answer() -> None:
    """The answer was bought and is not stored: history must not speak of it."""
    proving, go_on = asyncio.Event(), asyncio.Event()

    class SlowToProve(Tools):
        async def prove(self, call: Any, use: Any) -> Any:
            proving.set()
            await go_on.wait()

    room = await Room(asks("exec"), tools=SlowToProve({"exec": "once"})).open()
    run = await room.accept()
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await proving.wait()
        await room.cancel(run)
        outcome = await ended(room, run)

    assert (outcome["state"], outcome["notices"]) == ("cancelled", [])
    assert room.history() == []
    assert await all_is_well(room)
    (paid,) = await room.world.booked()
    assert not paid.estimated


async def test_a_cancel_while_money_is_set_aside_leaves_nothing_open() -> None:
    """The reservation of a second try is stored at that moment."""
    room = await Room(TryLater("busy"), ModelAnswer("never")).open()
    run = await room.accept()
    room.runs.pauses = [0.1]
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await until(lambda: room.model.requests and not room.runs.pauses)
        await asyncio.sleep(0.02)
        await room.cancel(run)
        assert (await ended(room, run))["state"] == "cancelled"

    assert len(room.model.requests) == 1
    assert await all_is_well(room)


async def test_a_cancel_that_meets_the_final_write_comes_too_late() -> None:
    """One outcome, and it is told at once: the answer was there."""
    room = await Room(ModelAnswer("hi"), ModelAnswer("the next")).open()
    run = await room.accept()
    behind = await room.accept("and this?")
    room.runs.pauses = [0.1]
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await until(lambda: room.model.requests and not room.runs.pauses)
        await asyncio.sleep(0.02)
        assert (await room.cancel(run)).status == "asked"
        outcome = await ended(room, run)
        assert (outcome["state"], outcome["reply"]) == ("done", "hi")
        assert (await ended(room, behind))["reply"] == "the next"

    assert [event.type for event in await room.events(run) if event.terminal] == ["done"]
    assert (await room.cancel(run)).status == "ended"
    assert await all_is_well(room)


async def test_a_cancel_after_the_end_changes_nothing() -> None:
    """What is over is over."""
    room = await Room(ModelAnswer("hi")).open()
    run = await room.accept()
    await room.serve()
    assert (await room.cancel(run)).status == "ended"

    assert (await room.outcome(run))["state"] == "done"


async def test_an_heir_ends_what_was_asked_to_end_without_asking_the_model() -> None:
    """A cancel survives the death of the worker that was told of it."""
    room = await Room(asyncio.Event()).open()
    run = await room.accept()
    serving = asyncio.create_task(room.serve())
    await until(lambda: room.model.requests)
    await room.cancel(run)
    heir = await room.heir()
    await heir.serve()
    outcome = await heir.outcome(run)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)

    assert (outcome["state"], outcome["error"]) == ("cancelled", CANCELLED)
    assert heir.model.requests == []
    assert heir.history() == []
    assert await heir.every_call_is_booked()


async def test_a_cancel_that_nobody_heard_is_found_in_the_store() -> None:
    """Redis is away, or was emptied."""
    room = await Room(asyncio.Event()).open()
    run = await room.accept()
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await until(lambda: room.model.requests)
        await room.world.inbox.cancel(run, reason="Enough.")
        await stop_cancelled(room.runs, hand)
        assert (await ended(room, run))["error"] == "Enough."


async def test_a_cancel_that_overtakes_the_answer_to_a_claim_is_heeded() -> None:
    """The claim is committed and its answer on its way: the command must not fall between the two."""
    room = await Room(ModelAnswer("never")).open()
    run = await room.accept()
    claimed, go_on = asyncio.Event(), asyncio.Event()
    claim = room.runs.claim

    class Slow:
        async def __call__(self, *asked: Any, **how: Any) -> Any:
            answer = await claim(*asked, **how)
            if isinstance(answer, Claim):
                claimed.set()
                await go_on.wait()
            return answer

    room.runs.claim = Slow()  # type: ignore[method-assign]
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await claimed.wait()
        await room.cancel(run)
        await asyncio.sleep(0.01)
        go_on.set()
        assert (await ended(room, run))["state"] == "cancelled"
    assert room.model.requests == []
    assert await all_is_well(room)


async def test_a_command_for_another_run_stops_nothing() -> None:
    """Everybody hears everything."""
    hold = asyncio.Event()
    room = await Room(hold, ModelAnswer("hi")).open()
    run = await room.accept()
    other = await room.accept("later", conversation="http:key:berta")
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await until(lambda: room.model.requests)
        await room.control.tell(Command("cancel", other, CONVERSATION, "no"))
        await room.control.tell(Command("cancel", run, "http:key:berta", "no"))
        await asyncio.sleep(0.01)
        hold.set()
        assert (await ended(room, run))["reply"] == "hi"


async def test_a_channel_is_told_of_a_cancelled_run_only_what_is_in_doubt() -> None:
    """Who has said stop needs no answer; who must know of an act in doubt gets the sentence."""
    begun, long = long_tool()
    room = await Room(asks("exec"), asyncio.Event(), tools=Tools({"exec": "once"}, doing={"exec": long})).open()
    new = chat_message()
    conversation = new.address.conversation
    await room.send(new)
    async with room.at_work() as hand:
        hand.take(conversation)
        await begun.wait()
        await room.cancel(new.id)
        await ended(room, new.id)
        assert [row.text for row in await room.world.deliveries()] == [DOUBT]

        second = chat_message("another")
        await room.send(second)
        hand.take(conversation)
        await until(lambda: len(room.model.requests) == 2)
        await room.cancel(second.id)
        await ended(room, second.id)
        assert len(await room.world.deliveries()) == 1


async def test_a_run_that_nobody_ends_is_ended_over_its_workers_head() -> None:
    """The worker is stopped or stuck; whoever looks ends the run, and the worker's late words count for nothing."""
    hold = asyncio.Event()
    room = await Room(hold, ModelAnswer("late")).open()
    run = await room.accept()
    serving = asyncio.create_task(room.serve())
    await until(lambda: room.model.requests)
    await room.world.inbox.cancel(run, reason=CANCELLED)
    room.clock.advance(5)
    assert [ended for ended, _ in await room.runs.cancel_overdue(older_than=timedelta(seconds=4), limit=5)] == [run]
    hold.set()
    await serving

    assert (await room.outcome(run))["state"] == "cancelled"
    assert room.history() == []
    assert await room.every_call_is_booked()


async def test_a_compaction_can_be_stopped() -> None:
    """It stands in the same line, and leaves the session as it was."""
    room = await Room(*[ModelAnswer(str(number)) for number in range(3)]).open()
    for number in range(3):
        await room.answer(str(number))
    room.model.then(asyncio.Event())
    run = await room.accept("", kind="compact")
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await until(lambda: len(room.model.requests) == 4)
        await room.cancel(run)
        assert (await ended(room, run))["state"] == "cancelled"
    assert room.roles() == ["user", "assistant"] * 3
    assert await room.every_call_is_booked()


async def test_a_deadline_that_meets_a_stored_step_keeps_it_once() -> None:
    """The time of a run can be over while its step is stored, as well."""
    room = await Room(asks("exec"), ModelAnswer("never"), manner=with_manner(error_message="Sorry.")).open()
    run = await room.accept(deadline=timedelta(seconds=0.1))
    room.runs.pauses = [0.3]
    await room.serve()

    assert (await room.outcome(run))["state"] == "failed"
    assert await all_is_well(room)
    assert "the run ended before a result was known" in contents(room)[0]
    assert room.tools.done == []
