"""Runs that processes died with: one strong suspect at a time, one with three deaths only alone."""

import asyncio
from uuid import UUID

import pytest

from services.agent_worker.actions.serve_conversation import Served
from services.agent_worker.actions.suspects import Suspects
from services.agent_worker.actions.work_alone import work_alone
from shared.adapters.inmemory.model import ScriptedModel
from shared.ids import new_id
from shared.ports.model import ModelAnswer, ModelRequest, OnDelta
from tests.builders import CONVERSATION, new_run
from tests.unit.agent_worker.actions.workroom import SPEC, Room, asked_texts, asks, until

OTHERS = ("http:key:b", "http:key:c")


async def suspect(room: Room, conversation: str, deaths: int) -> UUID:
    """A run that so many processes died with."""
    run = (await room.world.accept(new_run(conversation, conversation=conversation))).run
    row = room.world.tables.runs[run]
    row.suspected, row.suspected_by = deaths, new_id()
    return run


def state(room: Room, run: UUID) -> str:
    return room.world.tables.runs[run].state


def test_there_is_room_for_one() -> None:
    """Two at once could hide behind each other."""
    room = Suspects()
    assert room.room
    assert room.keep_room("a")
    assert room.keep_room("a")
    assert not room.keep_room("b")
    assert not room.room
    room.wait("b")
    room.wait("c")
    room.wait("b")
    assert room.leave("b") is None
    assert room.leave("a") == "b"
    assert room.room
    assert room.keep_room("b")
    room.give_up_room("a")
    assert not room.room
    room.give_up_room("b")
    assert room.room
    assert room.keep_room("b")
    assert room.leave("b") == "c"
    assert room.leave("c") is None


async def test_strong_suspects_are_taken_one_after_the_other() -> None:
    """The next one begins as soon as the one in hand is over, not at the next sweep; innocent runs go on."""
    hold = asyncio.Event()
    room = await Room(hold, *[ModelAnswer("hi") for _ in range(4)]).open()
    runs = [await suspect(room, conversation, 2) for conversation in (CONVERSATION, *OTHERS)]
    innocent = (await room.world.accept(new_run("innocent", conversation="http:key:d"))).run
    async with room.at_work(slots=8) as hand:
        for conversation in (CONVERSATION, *OTHERS, "http:key:d"):
            hand.take(conversation)
        await until(lambda: state(room, innocent) == "done")
        asked = [asked_texts(request)[-1] for request in room.model.requests]
        assert sorted(asked) == sorted([asked[0], "innocent"])
        hold.set()
        await until(lambda: all(state(room, run) == "done" for run in runs))
        await until(lambda: hand.count == 0)

    assert all(room.world.tables.runs[run].attempts == 1 for run in runs)
    assert room.desk.suspects.room
    assert await room.every_call_is_booked()


async def test_what_stands_behind_a_suspect_does_not_hold_up_the_other_suspects() -> None:
    """Room is for the run, not for its conversation, where a long errand may come next."""
    hold = asyncio.Event()

    class Errands(ScriptedModel):
        async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
            if asked_texts(request)[-1] == "a long errand":
                await hold.wait()
            return ModelAnswer("hi")

    room = Room()
    room.model = Errands([], spec=SPEC)
    await room.open()
    first, second = await suspect(room, CONVERSATION, 2), await suspect(room, OTHERS[0], 2)
    behind = await room.accept("a long errand")
    async with room.at_work(slots=8) as hand:
        hand.take(CONVERSATION)
        hand.take(OTHERS[0])
        await until(lambda: state(room, first) == state(room, second) == "done")
        await until(lambda: state(room, behind) == "running")
        await until(lambda: room.desk.suspects.room)
        hold.set()
        await until(lambda: state(room, behind) == "done")
    assert await room.every_call_is_booked()


async def test_never_more_than_one_is_asked_of_the_model_at_a_time() -> None:
    """Counted where it matters."""
    most, now = 0, 0
    room = await Room(*[asks("read") for _ in range(3)]).open()

    async def doing(_: object) -> str:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        room.model.then(ModelAnswer("hi"))
        return "read"

    room.tools.doing["read"] = doing
    runs = [await suspect(room, conversation, 2) for conversation in (CONVERSATION, *OTHERS)]
    async with room.at_work(slots=8) as hand:
        for conversation in (CONVERSATION, *OTHERS):
            hand.take(conversation)
        await until(lambda: sum(state(room, run) == "done" for run in runs) >= 1)
        await asyncio.sleep(0.1)
    assert most == 1


async def test_a_first_death_proves_little() -> None:
    """After a kill of a worker its runs go on at once, all of them."""
    room = await Room(*[asyncio.Event() for _ in range(3)]).open()
    for conversation in (CONVERSATION, *OTHERS):
        await suspect(room, conversation, 1)
    async with room.at_work(slots=8) as hand:
        for conversation in (CONVERSATION, *OTHERS):
            hand.take(conversation)
        await until(lambda: len(room.model.requests) == 3)


async def test_a_suspect_that_came_too_late_leaves_no_reservation() -> None:
    """Two claims under way at once see the same free room; one of them is given back, as if it had never been."""
    hold = asyncio.Event()
    room = await Room(hold, ModelAnswer("one"), ModelAnswer("two")).open()
    first, second = await suspect(room, CONVERSATION, 2), await suspect(room, OTHERS[0], 2)
    async with room.at_work(slots=8) as hand:
        hand.take(CONVERSATION)
        hand.take(OTHERS[0])
        await until(lambda: room.model.requests)
        await asyncio.sleep(0.02)
        assert len(room.model.requests) == 1
        hold.set()
        await until(lambda: state(room, first) == state(room, second) == "done")
        await until(lambda: hand.count == 0)
    assert room.world.tables.runs[second].attempts == 1
    assert await room.every_call_is_booked()


async def test_a_run_with_three_deaths_is_for_a_process_of_its_own() -> None:
    """It is asked for, and no slot is held for it."""
    asked: list[str] = []
    room = await Room().open()
    run = await suspect(room, CONVERSATION, 3)
    assert await room.serve() == Served(alone=True)
    async with room.at_work(isolate=asked.append) as hand:
        hand.take(CONVERSATION)
        await until(lambda: hand.count == 0)
    assert asked == [CONVERSATION]
    assert state(room, run) == "accepted"
    assert room.model.requests == []


async def test_a_process_of_its_own_answers_it_and_ends() -> None:
    """What was no poison is answered, and then there is nothing left to do."""
    room = await Room().open()
    run = await suspect(room, CONVERSATION, 3)
    lonely = await room.peer(ModelAnswer("hi"), alone=True)
    async with lonely.at_work(slots=1) as hand:
        await asyncio.wait_for(work_alone(CONVERSATION, hand, is_wanted=lambda: True), 5)

    assert (await room.outcome(run))["reply"] == "hi"


async def test_a_process_of_its_own_ends_with_the_one_that_asked_for_it() -> None:
    """An orphan would hold the conversation, and nobody would end it when it is stuck."""
    room = await Room().open()
    await suspect(room, CONVERSATION, 3)
    lonely = await room.peer(asyncio.Event(), alone=True)
    async with lonely.at_work(slots=1) as hand:
        await asyncio.wait_for(work_alone(CONVERSATION, hand, is_wanted=lambda: not lonely.model.requests), 5)


async def test_the_fourth_death_is_the_end_and_the_line_goes_on() -> None:
    """Its person is told in one sentence; what stands behind it is answered by anybody."""
    room = await Room().open()
    run = await suspect(room, CONVERSATION, 3)
    behind = await room.accept("and this?")
    lonely = await room.peer(asyncio.Event(), alone=True)
    serving = asyncio.create_task(lonely.serve())
    await until(lambda: lonely.model.requests)
    await room.world.fence(lonely.worker)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    outcome = await room.outcome(run)
    assert outcome["state"] == "dead"
    assert outcome["error"]
    room.model.then(ModelAnswer("the next"))
    await room.serve()

    assert (await room.outcome(behind))["reply"] == "the next"
    assert asked_texts(room.model.requests[0]) == ["and this?"]


@pytest.mark.parametrize("where", ["before the round", "in the round"])
async def test_a_drain_at_the_border_of_a_round_leaves_no_false_doubt(where: str) -> None:
    """What was written down and not begun is as if it never was; what was begun is in doubt, as after any crash."""
    room = await Room(asks("exec")).open()
    run = await room.accept()
    begun = asyncio.Event()

    async def long(_: object) -> str:
        begun.set()
        await asyncio.sleep(60)
        return "never"

    if where == "in the round":
        room.tools.doing["exec"] = long
    else:
        store = room.runs.store

        async def drains(*asked: object, **how: object) -> object:
            stored = await store(*asked, **how)  # type: ignore[arg-type]
            room.desk.draining.set()
            return stored

        room.runs.store = drains  # type: ignore[method-assign, assignment]
    async with room.at_work() as hand:
        hand.take(CONVERSATION)
        await until(lambda: begun.is_set() or hand.count == 0)
        room.desk.draining.set()
        await hand.drop()
    await room.world.fleet.fence(room.worker, beat=None, state="stopped")
    room.tools.doing.clear()
    heir = await room.peer(ModelAnswer("ok"))
    await heir.serve()

    outcome = await heir.outcome(run)
    assert outcome["reply"] == "ok"
    assert len(room.tools.done) == 1
    assert len(outcome["notices"]) == (1 if where == "in the round" else 0)
    assert await room.every_call_is_booked()
    assert room.world.tables.runs[run].suspected == 0
