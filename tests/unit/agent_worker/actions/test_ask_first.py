"""Calls that a person must allow: they run once, after a yes, as they were asked about; and nobody waits in a slot."""

import asyncio
import contextlib
from datetime import timedelta
from uuid import UUID

from services.agent_worker.rules.effects import InDoubt
from shared.domain.run import NewRun
from shared.ids import new_id
from shared.ports.model import ModelAnswer
from tests.builders import CHAT, CONVERSATION, call, chat_message, new_run
from tests.faults import Interrupted
from tests.unit.agent_worker.actions.workroom import Room, Tools, asked_texts, asks, contents, until, with_manner

ASKING = with_manner(ask_first=frozenset({"exec"}))
DOUBT = InDoubt("exec", "c0").for_person()


async def asked(*script: ModelAnswer | BaseException | asyncio.Event, tools: Tools | None = None) -> tuple[Room, UUID]:
    """A room whose run has asked its person, and waits."""
    room = await Room(*script, manner=ASKING, tools=tools).open()
    run = await room.accept("please do it")
    await room.serve()
    assert room.world.tables.runs[run].state == "waiting"
    return room, run


async def say(room: Room, text: str) -> UUID:
    new = new_run(text)
    accepted = await room.send(new)
    assert accepted.into is not None
    return new.id


async def test_a_run_that_asks_waits_without_owner_or_slot() -> None:
    """It may take days; another conversation gets the slot."""
    room = await Room(asks("exec"), ModelAnswer("hi"), manner=ASKING).open()
    run = await room.accept("please do it")
    other = await room.accept("hello", conversation="http:key:berta")
    async with room.at_work(slots=1) as hand:
        hand.take(CONVERSATION)
        await until(lambda: hand.count == 0)
        hand.take("http:key:berta")
        await until(lambda: room.world.tables.runs[other].finished_at is not None)
    await room.desk.outlet.flush()

    row = room.world.tables.runs[run]
    assert (row.state, row.wait_reason, row.step) == ("waiting", "approval", 1)
    assert room.world.tables.conversations[CONVERSATION].owner is None
    assert CONVERSATION not in room.bus.owners
    assert room.tools.done == []
    assert room.world.tables.effects == {}
    (question,) = await room.world.inbox.questions([run])
    assert question.text.startswith("May I use 'exec' with x = 0?")
    (event,) = [event for event in await room.events(run) if event.type == "approval"]
    (approval, tool) = question.approvals[0]
    assert (event.data["approval_id"], event.data["tool"], tool) == (str(approval), "exec", "exec")
    assert await room.every_call_is_booked()


async def test_a_yes_runs_the_call_once_with_its_intent_stored_before() -> None:
    """From there on it is an act like any other."""
    room, run = await asked(asks("exec"), ModelAnswer("it is done"))
    answer = await say(room, "Yes!")
    await room.serve()

    assert [name for name, _ in room.tools.done] == ["exec"]
    (intending,) = [write for write in room.runs.writes if write.intents]
    assert [intent.tool for intent in intending.intents] == ["exec"]
    assert room.runs.writes.index(intending) < next(n for n, write in enumerate(room.runs.writes) if write.results)
    outcome = await room.outcome(run)
    assert (outcome["reply"], outcome["notices"]) == ("it is done", [])
    assert (await room.outcome(answer))["reply"] == "it is done"
    assert room.world.tables.runs[run].attempts == 1
    assert asked_texts(room.model.requests[1]) == ["please do it"]  # a yes is no message
    assert room.all_calls_have_results()
    assert await room.every_call_is_booked()


async def test_a_no_is_read_by_the_model_in_the_persons_words() -> None:
    """They often say what they want instead."""
    room, run = await asked(asks("exec"), ModelAnswer("then not"))
    await say(room, "no, only list the files")
    await room.serve()

    assert room.tools.done == []
    (content,) = contents(room)
    assert content == "Error: the person did not allow this. They said: no, only list the files"
    assert room.world.tables.effects == {}
    assert (await room.outcome(run))["reply"] == "then not"


async def test_calls_beside_the_one_asked_about_wait_with_it() -> None:
    """One round is one step: a yes runs all of it, a no all but the call asked about."""
    for answer, done in (("yes", ["read", "exec", "write"]), ("no", ["read", "write"])):
        tools = Tools({"read": "read", "exec": "once", "write": "once"})
        room, run = await asked(asks("read", "exec", "write"), ModelAnswer("ok"), tools=tools)
        assert tools.done == []
        await say(room, answer)
        await room.serve()

        assert sorted(name for name, _ in tools.done) == sorted(done)
        assert (await room.outcome(run))["notices"] == []
        assert room.all_calls_have_results()


async def test_an_answer_for_other_arguments_counts_for_nothing() -> None:
    """What was asked about is what is run; anything else is asked about anew."""
    room, run = await asked(asks("exec"), ModelAnswer("never"))
    (approval,) = room.world.tables.approvals.values()
    approval.args_hash = "00" * 32
    await say(room, "yes")
    await room.serve()

    assert room.tools.done == []
    assert room.world.tables.runs[run].state == "waiting"
    assert len(await room.world.inbox.questions([run])) == 1


async def test_each_question_is_for_its_own_call() -> None:
    """A yes to the first act is none to the second, even with the same words in it."""
    room, run = await asked(asks("exec"), asks("exec"), ModelAnswer("both"))
    await say(room, "yes")
    await room.serve()
    assert room.world.tables.runs[run].state == "waiting"
    assert len(room.tools.done) == 1
    await say(room, "ok")
    await room.serve()

    assert len(room.tools.done) == 2
    assert (await room.outcome(run))["reply"] == "both"


async def test_a_crash_between_the_answer_and_the_act_asks_nobody_again() -> None:
    """The yes is stored; nothing had begun, so nothing is in doubt."""
    room, run = await asked(asks("exec"))
    await say(room, "yes")
    room.runs.die_before = len(room.runs.writes) + 1  # the intents are not stored yet
    with contextlib.suppress(Interrupted):
        await room.serve()
    assert room.tools.done == []
    heir = await room.heir(ModelAnswer("done"))
    await heir.serve()

    assert [name for name, _ in room.tools.done] == ["exec"]
    assert (await heir.outcome(run))["notices"] == []


async def test_a_crash_after_the_act_began_leaves_it_in_doubt() -> None:
    """A yes is for one act, not for two."""

    async def die(_: object) -> str:
        raise Interrupted

    tools = Tools({"exec": "once"}, doing={"exec": die})
    room, run = await asked(asks("exec"), tools=tools)
    await say(room, "yes")
    with contextlib.suppress(Interrupted):
        await room.serve()
    tools.doing.clear()
    heir = await room.heir(ModelAnswer("I don't know"))
    await heir.serve()

    assert len(tools.done) == 1
    assert (await heir.outcome(run))["notices"] == [DOUBT]


async def test_a_question_survives_its_worker() -> None:
    """A deploy while somebody thinks it over."""
    room, run = await asked(asks("exec"))
    heir = await room.heir(ModelAnswer("done"))
    await heir.serve()
    assert heir.model.requests == []
    await say(heir, "yes")
    await heir.serve()

    assert (await heir.outcome(run))["reply"] == "done"
    assert room.world.tables.runs[run].suspected == 0


async def test_a_run_that_waits_can_be_cancelled() -> None:
    """Then its question is void, and a later yes is a message."""
    room, run = await asked(asks("exec"), ModelAnswer("yes what?"))
    assert (await room.cancel(run)).status == "cancelled"
    later = new_run("yes")
    assert (await room.send(later)).into is None
    await room.serve()

    assert (await room.outcome(run))["state"] == "cancelled"
    assert (await room.outcome(later.id))["reply"] == "yes what?"
    assert room.tools.done == []
    assert room.all_calls_have_results()


async def test_a_cancel_on_the_way_into_a_wait_ends_the_run_and_serves_who_is_behind_it() -> None:
    """A run that waits has nobody who would look at its cancel."""
    room = await Room(asks("exec"), ModelAnswer("the next"), manner=ASKING).open()
    run = await room.accept("please do it")
    behind = await room.accept("and this?")
    room.runs.pauses = [0.0, 0.2]
    serving = asyncio.create_task(room.serve())
    await until(lambda: room.model.requests and not room.runs.pauses)
    await room.world.inbox.cancel(run, reason="Enough.")
    await serving

    assert (await room.outcome(run))["state"] == "cancelled"
    assert [event.type for event in await room.events(run) if event.terminal] == ["cancelled"]
    assert (await room.outcome(behind))["reply"] == "the next"


async def test_the_question_goes_out_to_a_channel() -> None:
    """The person of a chat reads it there, and answers there."""
    room = await Room(asks("exec"), ModelAnswer("done"), manner=ASKING).open()
    new = chat_message("please do it")
    await room.send(new)
    await room.serve(CHAT)
    (row,) = await room.world.deliveries()
    assert (row.kind, row.run) == ("question", new.id)
    assert "May I use 'exec'" in row.text
    await room.send(chat_message("ja, bitte"))
    await room.serve(CHAT)

    assert [(row.kind, row.text) for row in await room.world.deliveries()][1:] == [("reply", "done")]


async def test_only_the_asked_person_answers() -> None:
    """In a group somebody else's yes is a message of theirs, and waits in the line."""
    room = await Room(asks("exec"), ModelAnswer("done"), ModelAnswer("hello Berta"), manner=ASKING).open()
    new = chat_message("please do it")
    await room.send(new)
    await room.serve(CHAT)
    theirs: NewRun = chat_message("yes", sender="berta")
    assert (await room.send(theirs)).into is None
    await room.serve(CHAT)
    assert room.tools.done == []
    await room.send(chat_message("yes"))
    await room.serve(CHAT)

    assert len(room.tools.done) == 1
    assert (await room.outcome(theirs.id))["reply"] == "hello Berta"


async def test_a_tool_that_is_not_there_is_not_asked_about() -> None:
    """The model is told that it does not exist."""
    room = await Room(asks("exec"), ModelAnswer("ok"), manner=ASKING, tools=Tools({"read": "read"})).open()
    outcome = await room.answer()
    assert outcome["state"] == "done"
    assert contents(room) == ["Error: Unknown tool"]


async def test_what_a_question_shows_is_bounded() -> None:
    """A whole file may be among the arguments."""
    long = ModelAnswer("", tool_calls=[call("exec", "c0", text="y" * 10_000)], stop_reason="tool_use")
    room, run = await asked(long)
    (question,) = await room.world.inbox.questions([run])
    assert len(question.text) < 2500
    assert "[and 8000 more characters, which are not shown here]" in question.text  # they would be allowed unseen


async def test_a_decision_by_its_id_lets_the_run_go_on() -> None:
    """The other way to answer; each question once."""
    room, run = await asked(asks("exec"), ModelAnswer("done"))
    (question,) = await room.world.inbox.questions([run])
    (approval, _) = question.approvals[0]
    assert (await room.world.inbox.decide(approval, allows=True, answer="", by="key")).status == "resumed"
    assert (await room.world.inbox.decide(approval, allows=False, answer="", by="key")).status == "gone"
    assert (await room.world.inbox.decide(new_id(), allows=True, answer="", by="key")).status == "unknown"
    await room.serve()

    assert (await room.outcome(run))["reply"] == "done"
    assert len(room.tools.done) == 1


async def test_the_time_a_person_takes_is_not_the_runs() -> None:
    """Its deadline pauses while it waits."""
    room = await Room(asks("exec"), ModelAnswer("done"), manner=ASKING).open()
    run = await room.accept("please do it", deadline=timedelta(minutes=10))
    await room.serve()
    room.clock.advance(86_400)
    await say(room, "yes")
    await room.serve()

    assert (await room.outcome(run))["reply"] == "done"


async def test_nobody_hears_a_question_before_it_is_stored() -> None:
    """A quick yes would find nothing to answer, and queue up behind its own question."""
    room = await Room(asks("exec"), manner=ASKING).open()
    run = await room.accept("please do it")
    room.runs.pauses = [0.0, 0.2]  # the answer with its call, then the wait
    serving = asyncio.create_task(room.serve())
    await until(lambda: len(room.runs.writes) == 1)
    await asyncio.sleep(0.05)
    await room.desk.outlet.flush()
    assert "approval" not in [event.type for event in await room.events(run)]
    await serving

    assert "approval" in [event.type for event in await room.events(run)]
