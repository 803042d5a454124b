"""Runs that somebody asks to end, and messages that do not want to wait; asked of the fake and of Postgres."""

import asyncio
from datetime import timedelta

import pytest

from shared.errors import Conflict, LostClaim
from shared.ids import new_id
from tests.builders import (
    CHAT,
    CONVERSATION,
    bodies,
    chat_message,
    ending,
    final_write,
    key,
    new_run,
    results,
    said,
    write,
)
from tests.runs_worlds import NO_TIME, World, with_question, with_tools_open


async def test_a_run_that_nobody_has_in_hand_ends_at_once(world: World) -> None:
    """It never gets to a model, and the line goes on without it."""
    first = await world.accept(new_run("one"))
    await world.accept(new_run("two"))
    answer = await world.inbox.cancel(first.run, reason="Anna stopped it.")

    assert (answer.status, answer.run, answer.conversation) == ("cancelled", first.run, CONVERSATION)
    (finished,) = await world.inbox.outcomes([first.run])
    assert (finished.outcome["state"], finished.outcome["error"]) == ("cancelled", "Anna stopped it.")
    taken = await world.claim()
    assert [body["content"] for body in bodies(taken)] == ["two"]


async def test_a_run_in_hand_is_asked_to_end(world: World) -> None:
    """Its worker ends it, so that what it has done is told; the first reason stands."""
    accepted = await world.accept(new_run())
    claim = await world.claim()
    assert await world.runs.cancels({CONVERSATION: claim.epoch}) == {}
    answers = [await world.inbox.cancel(accepted.run, reason=reason) for reason in ("one", "two")]

    assert [answer.status for answer in answers] == ["asked", "asked"]
    assert list(await world.inbox.outcomes([accepted.run])) == []
    assert await world.runs.cancels({CONVERSATION: claim.epoch, "other": 1}) == {CONVERSATION: "one"}
    assert await world.runs.cancels({CONVERSATION: claim.epoch - 1}) == {}
    await world.store(claim, final_write(claim, ending=ending(claim, "", state="cancelled")))
    assert await world.runs.cancels({CONVERSATION: claim.epoch}) == {}
    assert (await world.inbox.cancel(accepted.run, reason="three")).status == "ended"


async def test_a_cancel_is_known_to_the_heir(world: World) -> None:
    """It stays asked for over hand-backs, drains and restarts."""
    await world.accept(new_run())
    claim = await world.claim()
    assert claim.cancel_asked is None
    await world.inbox.cancel(claim.run, reason="Anna stopped it.")
    await world.runs.hand_back(CONVERSATION, worker=world.me, epoch=claim.epoch)

    assert (await world.claim()).cancel_asked == "Anna stopped it."


async def test_who_hangs_up_ends_a_run_of_their_own_like_any_cancel(world: World) -> None:
    """At once while nobody has it in hand, else its worker is told."""
    first, second = await world.accept(new_run("one")), await world.accept(new_run("two"))
    assert (await world.inbox.hang_up(first.run, reason="Gone.")).status == "cancelled"
    claim = await world.claim()
    assert claim.run == second.run
    assert (await world.inbox.hang_up(second.run, reason="Gone.")).status == "asked"
    assert await world.runs.cancels({CONVERSATION: claim.epoch}) == {CONVERSATION: "Gone."}
    assert (await world.inbox.hang_up(first.run, reason="Gone.")).status == "ended"
    assert (await world.inbox.hang_up(new_id(), reason="Gone.")).status == "unknown"


async def test_who_hangs_up_does_not_end_a_run_that_answers_others_too(world: World) -> None:
    """Neither who was taken in nor who took others in speaks for the rest."""
    claim = await with_tools_open(world)
    other = await world.accept(new_run("and this", when_busy="steer"))
    round_ = write(claim, messages=[results(("c0", "Error: no"))], step=2, stage="model", absorb=True)
    assert len((await world.written(claim, round_)).absorbed) == 1
    for run in (claim.run, other.run):
        assert (await world.inbox.hang_up(run, reason="Gone.")).status == "shared"
    assert await world.runs.cancels({CONVERSATION: claim.epoch}) == {}
    assert (await world.inbox.cancel(other.run, reason="x")).status == "asked"  # who says so by name means it


async def test_what_is_not_there_can_not_be_cancelled(world: World) -> None:
    """And nothing is changed by it."""
    before = await world.everything()
    unknown = new_id()
    answer = await world.inbox.cancel(unknown, reason="x")

    assert (answer.status, answer.run, answer.conversation) == ("unknown", unknown, "")
    assert await world.everything() == before


async def test_what_has_ended_stays_as_it_ended(world: World) -> None:
    """There is one outcome."""
    await world.accept(new_run())
    claim = await world.claim()
    await world.store(claim, final_write(claim))
    before = await world.everything()

    assert (await world.inbox.cancel(claim.run, reason="x")).status == "ended"
    assert await world.everything() == before


async def test_a_waiting_run_is_cancelled_at_once(world: World) -> None:
    """Nobody has it in hand, and its history is closed."""
    claim = await with_question(world)
    assert (await world.inbox.cancel(claim.run, reason="Anna stopped it.")).status == "cancelled"

    roles = [body["role"] for body in await world.messages(claim.session.id)]
    assert roles == ["user", "assistant", "tool_results", "assistant"]
    assert await world.ask() == "nothing"


async def test_a_run_whose_owner_died_ends_at_once(world: World) -> None:
    """Nobody is there who could be asked."""
    claim = await with_tools_open(world)
    await world.fence()
    answer = await world.inbox.cancel(claim.run, reason="Anna stopped it.")

    assert answer.status == "cancelled"
    assert await world.ask(worker=await world.hire()) == "nothing"


async def test_a_merged_run_stands_for_its_leader(world: World) -> None:
    """They are one question; who stops one of them stops the answer."""
    first = await world.accept(chat_message("one"))
    second = await world.accept(chat_message("two"))
    claim = await world.claim(CHAT)
    asked = await world.inbox.cancel(second.run, reason="Anna stopped it.")
    assert (asked.status, asked.run) == ("asked", first.run)
    assert await world.runs.cancels({CHAT: claim.epoch}) == {CHAT: "Anna stopped it."}
    await world.wait(0.01)
    await world.runs.cancel_overdue(older_than=NO_TIME, limit=9)

    ended = await world.inbox.cancel(second.run, reason="x")
    assert (ended.status, ended.run) == ("ended", first.run)
    outcomes = await world.ended(first.run, second.run)
    assert [one.outcome["state"] for one in outcomes] == ["cancelled", "cancelled"]


async def test_a_worker_that_does_not_heed_a_cancel_loses_the_run(world: World) -> None:
    """Whatever blocks it: the person is told within seconds."""
    claim = await with_tools_open(world)
    other = await world.accept(new_run("busy", conversation="b"))
    await world.claim("b")
    await world.inbox.cancel(claim.run, reason="Anna stopped it.")
    await world.wait(0.02)
    assert list(await world.runs.cancel_overdue(older_than=timedelta(minutes=1), limit=9)) == []
    assert list(await world.runs.cancel_overdue(older_than=NO_TIME, limit=9)) == [(claim.run, CONVERSATION)]
    assert list(await world.runs.cancel_overdue(older_than=NO_TIME, limit=9)) == []

    (finished,) = await world.inbox.outcomes([claim.run, other.run])
    assert (finished.outcome["state"], finished.outcome["error"]) == ("cancelled", "Anna stopped it.")
    assert list(await world.runs.overtaken({CONVERSATION: claim.epoch}, worker=world.me)) == [CONVERSATION]
    before = await world.everything()
    with pytest.raises(LostClaim):
        await world.store(claim, write(claim, messages=[said("late")], step=2))
    assert await world.runs.hand_back(CONVERSATION, worker=world.me, epoch=claim.epoch, unbegun=True) is False
    assert await world.everything() == before


async def test_only_so_many_are_ended_at_a_time(world: World) -> None:
    """One pass must stay short."""
    for name in ("a", "b", "c"):
        accepted = await world.accept(new_run(conversation=name))
        await world.claim(name)
        await world.inbox.cancel(accepted.run, reason="x")
    await world.wait(0.01)
    ended = [await world.runs.cancel_overdue(older_than=NO_TIME, limit=2) for _ in range(3)]

    assert [[name for _, name in some] for some in ended] == [["a", "b"], ["c"], []]


async def test_a_cancel_and_the_end_meet_in_one_outcome(world: World) -> None:
    """Whichever is first; the other one finds it."""
    for number in range(5):
        name = f"c{number}"
        accepted = await world.accept(new_run(conversation=name, webhook="callback"))
        claim = await world.claim(name)
        _, stored = await asyncio.gather(
            world.inbox.cancel(accepted.run, reason="x"), world.written(claim, final_write(claim))
        )
        assert stored.more is False
    assert len(await world.webhooks()) == 5


# interrupt


async def test_who_interrupts_stands_first_and_ends_what_runs(world: World) -> None:
    """Its worker is told so; the new message is answered before all that was not begun."""
    first = await world.accept(new_run("one"))
    claim = await world.claim()
    await world.accept(new_run("two"))
    urgent = await world.accept(new_run("stop!", when_busy="interrupt"))
    second = await world.accept(new_run("and this first", when_busy="interrupt"))
    assert (urgent.state, urgent.ordinal, urgent.cancels, second.cancels) == ("accepted", 3, first.run, first.run)
    assert await world.runs.cancels({CONVERSATION: claim.epoch}) == {CONVERSATION: "A newer message took its place."}
    assert await world.store(claim, final_write(claim, ending=ending(claim, "", state="cancelled"))) is True

    order = []
    for _ in range(3):
        taken = await world.claim()
        order.append(taken.text)
        await world.store(taken, final_write(taken))
    assert order == ["stop!", "and this first", "two"]


async def test_what_was_begun_goes_on_before_what_interrupts(world: World) -> None:
    """An heir must end the old run first; two of one conversation never run at once."""
    await world.accept(new_run("one"))
    claim = await world.claim()
    await world.accept(new_run("stop!", when_busy="interrupt"))
    await world.fence()
    taken = await world.claim(worker=await world.hire())

    assert (taken.run, taken.cancel_asked) == (claim.run, "A newer message took its place.")


async def test_who_interrupts_an_idle_conversation_interrupts_nothing(world: World) -> None:
    """It is a message like any other."""
    alone = await world.accept(new_run("one", when_busy="interrupt"))
    assert alone.cancels is None
    await world.accept(new_run("b", conversation="b"))
    before = await world.accept(new_run("a", conversation="b", when_busy="interrupt"))

    assert before.cancels is None
    assert (await world.claim("b")).text == "a"


async def test_a_steering_text_does_not_take_what_interrupts_with_it(world: World) -> None:
    """It would end with the run that it was to end."""
    claim = await with_tools_open(world)
    urgent = await world.accept(new_run("stop!", when_busy="interrupt"))
    await world.accept(new_run("also this", when_busy="steer"))
    stored = await world.written(claim, write(claim, step=2, stage="model", absorb=True))
    assert list(stored.absorbed) == []
    await world.store(claim, final_write(claim, ending=ending(claim, "", state="cancelled")))

    assert (await world.claim()).run == urgent.run


# reject


async def test_who_does_not_want_to_wait_is_refused_and_leaves_no_trace(world: World) -> None:
    """Nothing was accepted, so the same request may be made again."""
    await world.accept(new_run("one"))
    before = await world.everything()
    new = new_run("two", when_busy="reject", idempotency=key())
    with pytest.raises(Conflict):
        await world.accept(new)
    assert await world.everything() == before

    claim = await world.claim()
    await world.store(claim, final_write(claim))
    accepted = await world.accept(new)
    assert (accepted.created, accepted.ordinal) == (True, 2)


async def test_who_is_known_is_not_refused(world: World) -> None:
    """A retry of what was taken asks for its run, and not for a place."""
    new = new_run(when_busy="reject", idempotency=key())
    first = await world.accept(new)

    assert await world.accept(new) == first
    again = await world.accept(new_run(when_busy="reject", idempotency=key()))
    assert (again.run, again.created) == (first.run, False)
    with pytest.raises(Conflict):
        await world.accept(new_run(when_busy="reject", idempotency=key("k2")))


async def test_of_many_that_do_not_want_to_wait_one_is_taken(world: World) -> None:
    """It is decided under the lock of the conversation."""
    got = await asyncio.gather(*(world.accept(new_run(when_busy="reject")) for _ in range(6)), return_exceptions=True)

    assert sum(isinstance(one, Conflict) for one in got) == 5
