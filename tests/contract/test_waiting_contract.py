"""Runs that wait for a person or for a better hour, asked of the fake and of Postgres."""

import asyncio
from datetime import timedelta

import pytest

from shared.domain.run import Waiting
from shared.errors import Conflict
from shared.ids import new_id
from tests.builders import (
    CHAT,
    CONVERSATION,
    asked,
    bodies,
    call,
    chat_message,
    ending,
    final_write,
    new_run,
    said,
    settlement,
    waiting,
    write,
)
from tests.runs_worlds import NO_TIME, World, with_question


async def test_a_run_that_waits_holds_neither_owner_nor_slot(world: World) -> None:
    """A person may take a day to answer; nobody looks at the run until then."""
    await with_question(world)
    await world.wait(0.01)

    assert await world.ask() == "nothing"
    assert await world.ask(worker=await world.hire()) == "nothing"
    assert list(await world.runs.orphans(older_than=NO_TIME, limit=9)) == []
    assert await world.open_reservations() == set()


async def test_the_next_text_of_who_was_asked_is_the_answer(world: World) -> None:
    """Deciding and going on are one transaction, and the text itself is no message of its own."""
    claim = await with_question(world)
    answer = await world.accept(new_run("Yes!"))
    assert (answer.state, answer.into, answer.created) == ("merged", claim.run, True)
    assert await world.accept(new_run("later")) != answer
    taken = await world.claim()

    assert (taken.run, taken.attempts, taken.stage, taken.step) == (claim.run, 1, "tools", 1)
    (approval,) = taken.approvals
    assert (approval.state, approval.answer, approval.tool, approval.args_hash) == (
        "allowed",
        "Yes!",
        "exec",
        "ab" * 32,
    )
    assert [body["role"] for body in bodies(taken)] == ["user", "assistant"]
    stored = await world.written(taken, final_write(taken, "done"))
    assert list(stored.followers) == [answer.run]
    leader, follower = await world.ended(claim.run, answer.run)
    assert follower.outcome == {**leader.outcome, "run_id": str(answer.run), "merged_into": str(claim.run)}
    assert follower.terminal == leader.terminal


async def test_anything_but_a_plain_yes_denies_and_is_passed_on(world: World) -> None:
    """The model reads the words of the person."""
    await with_question(world)
    await world.accept(new_run("yes, but only in /tmp"))
    (approval,) = (await world.claim()).approvals

    assert (approval.state, approval.answer) == ("denied", "yes, but only in /tmp")


async def test_what_a_machine_says_is_no_answer(world: World) -> None:
    """A notice joins the conversation of a person; it must not deny what only that person can decide."""
    claim = await with_question(world)
    notice = await world.accept(new_run("yes", source="system"))
    answer = await world.accept(new_run("yes"))

    assert (notice.state, notice.into, notice.created) == ("accepted", None, True)
    assert (answer.state, answer.into) == ("merged", claim.run)


async def test_an_answer_sent_again_is_the_same_answer(world: World) -> None:
    """Its first accept was committed and the answer to it got lost."""
    claim = await with_question(world)
    text = new_run("yes")
    first, again = await world.accept(text), await world.accept(text)

    assert again == first
    assert again.into == claim.run


async def test_somebody_elses_text_is_no_answer(world: World) -> None:
    """In a group only the one who was asked may allow it."""
    await with_question(world)
    other = await world.accept(new_run("yes", sender="bert"))

    assert (other.state, other.into) == ("accepted", None)
    assert await world.ask() == "nothing"


@pytest.mark.parametrize("when_busy", ["queue", "steer"])
async def test_of_two_answers_at_once_one_decides(world: World, when_busy: str) -> None:
    """The other one becomes an ordinary message, to be answered after it."""
    claim = await with_question(world)
    yes, no = new_run("yes", when_busy=when_busy), new_run("no", when_busy=when_busy)
    got = await asyncio.gather(world.accept(yes), world.accept(no))

    assert sorted(one.state for one in got) == ["accepted", "merged"]
    (merged,) = [one for one in got if one.state == "merged"]
    taken = await world.claim()
    assert (taken.run, merged.into) == (claim.run, claim.run)
    assert taken.approvals[0].state == ("allowed" if merged.run == yes.id else "denied")


async def test_an_answer_passes_a_line_that_is_full(world: World) -> None:
    """Else the run that the whole line waits for could never go on."""
    claim = await with_question(world)
    await world.accept(new_run("other", sender="bert"))

    assert (await world.accept(new_run("yes", capacity=2))).into == claim.run
    assert (await world.claim()).approvals[0].state == "allowed"


async def test_who_does_not_want_to_wait_is_refused_by_a_waiting_run(world: World) -> None:
    """A conversation that waits for its person is busy."""
    await with_question(world)
    with pytest.raises(Conflict):
        await world.accept(new_run("hello", when_busy="reject"))
    assert await world.ask() == "nothing"


async def test_a_decision_by_id_is_taken_once(world: World) -> None:
    """A button may be pressed twice, by two people."""
    one = asked()
    claim = await with_question(world, None, one)
    first = await world.inbox.decide(one.id, allows=True, answer="ok", by="anna")
    again = await world.inbox.decide(one.id, allows=False, answer="no", by="bert")

    assert (first.status, first.run, first.conversation) == ("resumed", claim.run, CONVERSATION)
    assert (again.status, again.run) == ("gone", claim.run)
    assert (await world.inbox.decide(new_id(), allows=True, answer="", by="anna")).status == "unknown"
    (approval,) = (await world.claim()).approvals
    assert (approval.state, approval.answer) == ("allowed", "ok")


@pytest.mark.parametrize("wake_in", [None, timedelta(hours=1)])
async def test_a_run_goes_on_when_the_last_question_is_decided(world: World, wake_in: timedelta | None) -> None:
    """Each call of a round is asked about by itself."""
    one, two = asked(0), asked(1, tool="write")
    claim = await with_question(world, None, one, two, wake_in=wake_in)
    assert (await world.inbox.decide(two.id, allows=False, answer="not that", by="anna")).status == "decided"
    assert await world.ask() == "nothing"
    (question,) = await world.inbox.questions([claim.run])
    assert list(question.approvals) == [(one.id, "exec")]
    assert (await world.inbox.decide(one.id, allows=True, answer="ok", by="anna")).status == "resumed"

    taken = await world.claim()
    assert [(row.call_index, row.state) for row in taken.approvals] == [(0, "allowed"), (1, "denied")]


async def test_a_text_decides_all_that_is_still_open(world: World) -> None:
    """Nobody answers the same question twice."""
    one, two = asked(0), asked(1)
    await with_question(world, None, one, two)
    await world.inbox.decide(one.id, allows=False, answer="no", by="anna")
    await world.accept(new_run("yes"))

    assert [row.state for row in (await world.claim()).approvals] == ["denied", "allowed"]


async def test_what_a_run_asks_can_be_looked_up(world: World) -> None:
    """Callers over HTTP await an outcome, and get a question."""
    one, two = asked(0, question="May I run it?"), asked(1, question="And write?", tool="write")
    claim = await with_question(world, None, one, two)
    await world.accept(new_run(conversation="b"))
    (question,) = await world.inbox.questions([claim.run, new_id()])

    assert (question.run, question.session, question.text) == (claim.run, claim.session.id, "May I run it?\nAnd write?")
    assert list(question.approvals) == [(one.id, "exec"), (two.id, "write")]
    await world.accept(new_run("no"))
    assert list(await world.inbox.questions([claim.run])) == []


async def test_a_merged_run_asks_what_its_leader_asks(world: World) -> None:
    """Whoever sent it waits for the same answer."""
    await world.accept(chat_message("one"))
    second = await world.accept(chat_message("two"))
    claim = await world.claim(CHAT)
    step = write(claim, messages=[said("", call("exec"))], settle=settlement(claim), step=1, stage="tools")
    await world.store(claim, step)
    await world.store(claim, write(claim, waiting=waiting()))

    (question,) = await world.inbox.questions([second.run])
    assert (question.run, question.session) == (second.run, claim.session.id)


async def test_the_deadline_pauses_while_a_run_waits(world: World) -> None:
    """The time is the agent's; the person's is not counted."""
    one = asked()
    await with_question(world, new_run(deadline=timedelta(seconds=3)), one)
    await world.wait(3.1)
    assert list(await world.runs.expire(limit=9)) == []
    await world.inbox.decide(one.id, allows=True, answer="ok", by="anna")
    taken = await world.claim()

    assert timedelta(0) < taken.time_left <= timedelta(seconds=3)


async def test_a_run_that_is_to_be_tried_later_wakes_by_itself(world: World) -> None:
    """A provider asks for a pause; the attempt goes on and counts as the same."""
    await world.accept(new_run())
    claim = await world.claim()
    pause = Waiting("retry", wake_in=timedelta(seconds=0.2), retries=3)
    stored = await world.written(claim, write(claim, settle=settlement(claim), waiting=pause))
    assert stored.more is False
    assert await world.ask() == "nothing"
    assert (await world.accept(new_run("are you there?"))).into is None  # nothing was asked
    await world.wait(0.3)
    assert list(await world.runs.orphans(older_than=NO_TIME, limit=9)) == [CONVERSATION]
    taken = await world.claim(worker=await world.hire())

    assert (taken.run, taken.attempts, taken.retries, taken.stage) == (claim.run, 1, 3, "model")
    assert await world.open_reservations() == {taken.call_id}
    assert taken.spent.calls == 1


async def test_an_answer_that_comes_too_late_is_a_message(world: World) -> None:
    """The run has gone on without it; what was not decided stays so."""
    one = asked()
    claim = await with_question(world, None, one, wake_in=timedelta(seconds=0.1))
    await world.wait(0.2)
    taken = await world.claim()
    assert [row.state for row in taken.approvals] == ["pending"]

    assert (await world.inbox.decide(one.id, allows=True, answer="ok", by="anna")).status == "gone"
    late = await world.accept(new_run("yes"))
    assert (late.state, late.into) == ("accepted", None)
    assert list(await world.inbox.questions([claim.run])) == []


async def test_a_wait_sent_twice_waits_and_asks_once(world: World) -> None:
    """Its COMMIT may get lost on the way back."""
    await world.accept(chat_message())
    claim = await world.claim(CHAT)
    step = write(claim, messages=[said("", call("exec"))], settle=settlement(claim), step=1, stage="tools")
    await world.store(claim, step)
    wait = write(claim, waiting=waiting(parts=["May I?"]))
    first, again = await world.written(claim, wait), await world.written(claim, wait)

    assert first == again
    assert [row.text for row in await world.deliveries()] == ["May I?"]
    (question,) = await world.inbox.questions([claim.run])
    assert len(question.approvals) == 1
    await world.accept(chat_message("yes"))
    heir = await world.hire()
    await world.claim(CHAT, worker=heir)
    late = await world.written(claim, wait)  # also when an heir has it by now
    assert late.more is False


async def test_a_wait_may_store_its_step_too(world: World) -> None:
    """The answer that asks, and the question, are one transaction."""
    await world.accept(new_run())
    claim = await world.claim()
    both = write(
        claim, messages=[said("", call("exec"))], settle=settlement(claim), step=1, stage="tools", waiting=waiting()
    )
    await world.store(claim, both)
    await world.accept(new_run("yes"))
    taken = await world.claim()

    assert (taken.stage, taken.step) == ("tools", 1)
    assert [row.state for row in taken.approvals] == ["allowed"]


async def test_questions_go_out_before_the_reply(world: World) -> None:
    """Parts are counted over all that a run says, so that a channel keeps their order."""
    claim = await with_question(world, chat_message(), parts=["I want to run 'ls'.", "May I?"])
    await world.accept(chat_message("yes"))
    taken = await world.claim(CHAT)
    await world.store(taken, final_write(taken, ending=ending(taken, parts=["Done.", "Bye."])))

    assert [(row.run, row.ordinal, row.part, row.kind, row.text) for row in await world.deliveries()] == [
        (claim.run, 1, 1, "question", "I want to run 'ls'."),
        (claim.run, 1, 2, "question", "May I?"),
        (claim.run, 1, 3, "reply", "Done."),
        (claim.run, 1, 4, "reply", "Bye."),
    ]


async def test_a_reset_ends_a_run_that_waits(world: World) -> None:
    """Its question is void, and its history has no open call."""
    one = asked()
    claim = await with_question(world, None, one)
    await world.accept(new_run("next", sender="bert"))
    reset = await world.inbox.reset(CONVERSATION, new_id(), source="http", sender="anna")

    assert reset is not None
    assert list(reset.cancelled) == [claim.run]
    assert (await world.inbox.decide(one.id, allows=True, answer="ok", by="anna")).status == "gone"
    assert await world.approvals(claim.run) == ["void"]
    roles = [body["role"] for body in await world.messages(claim.session.id)]
    assert roles == ["user", "assistant", "tool_results", "assistant"]
    following = await world.claim()
    assert (following.text, following.session.id != claim.session.id) == ("next", True)


async def test_who_interrupts_a_run_that_waits_takes_its_place(world: World) -> None:
    """The person has changed their mind; the question is void."""
    one = asked()
    claim = await with_question(world, None, one)
    await world.accept(new_run("queued", sender="bert"))
    new = await world.accept(new_run("never mind", when_busy="interrupt"))

    assert (new.state, new.into, new.cancels) == ("accepted", None, None)
    (finished,) = await world.inbox.outcomes([claim.run])
    assert finished.outcome["state"] == "cancelled"
    assert (await world.inbox.decide(one.id, allows=True, answer="ok", by="anna")).status == "gone"
    taken = await world.claim()
    assert taken.text == "never mind"
    assert [body["role"] for body in bodies(taken)] == ["user", "assistant", "tool_results", "assistant", "user"]


async def test_a_run_that_is_to_end_does_not_begin_to_wait(world: World) -> None:
    """Its worker had not heard of the cancel yet; while it waits nobody would look for one."""
    await world.accept(chat_message())
    claim = await world.claim(CHAT)
    step = write(claim, messages=[said("", call("exec"))], settle=settlement(claim), step=1, stage="tools")
    await world.store(claim, step)
    await world.inbox.cancel(claim.run, reason="Anna stopped it.")
    await world.accept(chat_message("next"))
    wait = write(claim, waiting=waiting(parts=["May I?"]))
    stored, again = await world.written(claim, wait), await world.written(claim, wait)

    assert stored == again
    assert stored.more is True
    assert stored.outcome is not None
    (finished,) = await world.inbox.outcomes([claim.run])
    assert finished.outcome == stored.outcome
    assert (finished.outcome["state"], finished.outcome["error"]) == ("cancelled", "Anna stopped it.")
    assert await world.deliveries() == []
    assert (await world.claim(CHAT)).text == "next"


async def test_a_question_may_be_asked_anew(world: World) -> None:
    """An answer was for other arguments than those that would run; it counts for nothing."""
    new = new_run()
    await with_question(world, new)
    await world.accept(new_run("yes"))
    claim = await world.claim()
    assert await world.approvals(claim.run) == ["allowed"]
    await world.store(claim, write(claim, waiting=waiting(asked(args_hash="cd" * 32))))

    assert await world.approvals(claim.run) == ["pending"]
    assert (await world.accept(new_run("no"))).into == claim.run
    (answer,) = (await world.claim()).approvals
    assert (answer.state, answer.args_hash) == ("denied", "cd" * 32)
