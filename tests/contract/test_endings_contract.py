"""Ends that are brought about from outside, asked of the fake and of Postgres."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.domain.run import Claim, EffectResult, Intent, NewRun, Waiting
from shared.ids import new_id
from shared.messages.run_events import terminal_id
from shared.ports.runs import FinishedRun, Reset
from tests.builders import (
    CHAT,
    CONVERSATION,
    bodies,
    call,
    chat_message,
    ending,
    final_write,
    new_run,
    results,
    said,
    settlement,
    waiting,
    write,
)
from tests.runs_worlds import World, killed, with_tools_open


async def test_a_run_nobody_took_fails_at_its_deadline(world: World) -> None:
    """No accepted message stays without an end."""
    late = await world.accept(new_run(deadline=timedelta(milliseconds=10)))
    await world.accept(new_run("next"))
    await world.wait(0.05)

    assert list(await world.runs.expire(limit=10)) == [late.run]
    assert list(await world.runs.expire(limit=10)) == []
    (finished,) = await world.inbox.outcomes([late.run])
    assert (finished.outcome["state"], finished.outcome["reply"]) == ("failed", "")
    assert finished.outcome["error"]
    assert finished.terminal == terminal_id(0)
    assert (await world.claim()).text == "next"


async def test_history_keeps_no_call_without_a_result_when_time_is_over(world: World) -> None:
    """Providers refuse such a history, and with it every message that follows."""
    await world.accept(new_run(deadline=timedelta(milliseconds=150)))
    claim = await world.claim()
    calls = [call("exec", "c1"), call("read", "c2")]
    await world.store(claim, write(claim, messages=[said("", *calls)], step=1, stage="tools"))
    await world.wait(0.2)
    assert list(await world.runs.expire(limit=10)) == [claim.run]
    await world.accept(new_run("next"))
    following = await world.claim(worker=await world.hire())

    assert following.epoch > claim.epoch
    _, _, closed, stopped, _ = bodies(following)
    assert [result["tool_use_id"] for result in closed["results"]] == ["c1", "c2"]
    assert all(result["is_error"] for result in closed["results"])
    assert stopped["role"] == "assistant"
    assert stopped["text"].startswith("[Stopped: ")


async def test_a_run_that_had_said_nothing_leaves_nothing_at_its_deadline(world: World) -> None:
    """The next message must not look like an answer to a question that was never answered."""
    await world.accept(new_run("late", deadline=timedelta(milliseconds=60)))
    await world.claim()
    await world.wait(0.1)
    await world.runs.expire(limit=10)
    await world.accept(new_run("next"))
    following = await world.claim()

    assert [body["content"] for body in bodies(following)] == ["next"]


async def test_a_run_between_steps_is_closed_with_a_sentence(world: World) -> None:
    """Its results are there; the model reads that it was stopped."""
    await world.accept(new_run("late", deadline=timedelta(milliseconds=150)))
    claim = await world.claim()
    await world.store(claim, write(claim, messages=[said("", call())], step=1, stage="tools"))
    await world.store(claim, write(claim, messages=[results(("c1", "x"))], step=2, stage="model"))
    await world.wait(0.2)
    await world.runs.expire(limit=10)
    await world.accept(new_run("next"))
    following = await world.claim()

    assert [body["role"] for body in bodies(following)] == ["user", "assistant", "tool_results", "assistant", "user"]


async def test_a_reset_closes_the_session_and_cancels_what_runs(world: World) -> None:
    """It overtakes: people use it when something goes wrong."""
    await world.accept(new_run("one"))
    claim = await world.claim()
    await world.accept(new_run("two"))
    reset_id = new_id()
    reset = await world.inbox.reset(CONVERSATION, reset_id, source="http", sender="anna")
    assert reset is not None
    assert (reset.session, list(reset.cancelled)) == (claim.session.id, [claim.run])
    again = await world.inbox.reset(CONVERSATION, reset_id, source="http", sender="anna")
    assert again is not None
    assert (again.session, list(again.cancelled)) == (claim.session.id, [])

    (finished,) = await world.inbox.outcomes([claim.run])
    assert (finished.outcome["state"], finished.terminal) == ("cancelled", terminal_id(claim.epoch))
    following = await world.claim()
    assert (following.text, following.ordinal) == ("two", 2)
    assert following.session.id != claim.session.id
    assert following.epoch > claim.epoch + 1
    assert [body["content"] for body in bodies(following)] == ["two"]


async def test_a_session_is_closed_for_resting_only_while_it_rests(world: World) -> None:
    """Between the look and the reset a message may come, and nobody has asked for that one to be ended."""
    await world.accept(new_run("one"))
    claim = await world.claim()

    async def reset(rested: timedelta) -> Reset | None:
        return await world.inbox.reset(CONVERSATION, new_id(), source="http", sender="operator", rested=rested)

    assert await reset(timedelta(0)) is None
    await world.store(claim, final_write(claim))
    assert await reset(timedelta(hours=1)) is None
    late = await world.accept(new_run("two"))
    assert await reset(timedelta(0)) is None
    assert [finished.run for finished in await world.inbox.outcomes([late.run])] == []
    following = await world.claim()
    assert (following.run, following.session.id) == (late.run, claim.session.id)
    await world.store(following, final_write(following))
    closed = await reset(timedelta(0))
    assert closed is not None
    assert (closed.session, list(closed.cancelled)) == (claim.session.id, [])


async def test_the_end_of_a_run_is_no_rest(world: World) -> None:
    """Also when it was ended from outside: its person was answered a moment ago."""
    await world.accept(new_run("one"))
    claim = await world.claim()
    await world.written(
        claim, write(claim, settle=settlement(claim), waiting=Waiting("retry", wake_in=timedelta(hours=1)))
    )
    await world.wait(1.2)
    await world.inbox.cancel(claim.run, reason="enough")

    async def reset() -> Reset | None:
        rested = timedelta(seconds=1)
        return await world.inbox.reset(CONVERSATION, new_id(), source="http", sender="operator", rested=rested)

    assert await reset() is None
    await world.wait(1.2)
    assert await reset() is not None


async def test_a_session_that_is_closed_ends_with_no_open_tool_call(world: World) -> None:
    """It is still read: by people, and by whoever draws memories from it."""
    claim = await with_tools_open(world)
    assert await world.inbox.reset(CONVERSATION, new_id(), source="http", sender="anna") is not None

    told = [body for body in await world.messages(claim.session.id)]
    assert [body["role"] for body in told] == ["user", "assistant", "tool_results", "assistant"]
    assert [result["tool_use_id"] for result in told[2]["results"]] == ["c1", "c2"]
    assert told[3]["text"].startswith("[Stopped: ")


async def test_a_reset_of_nothing_says_so(world: World) -> None:
    """Resetting twice is no fault."""
    assert await world.inbox.reset("cli", new_id(), source="cli", sender="me") is None
    await world.accept(new_run())
    assert await world.inbox.reset(CONVERSATION, new_id(), source="cli", sender="me") is None
    claim = await world.claim()
    await world.store(claim, final_write(claim))
    assert await world.inbox.reset(CONVERSATION, new_id(), source="cli", sender="me") is not None
    assert await world.inbox.reset(CONVERSATION, new_id(), source="cli", sender="me") is None


# whoever ends it

HOW = ["stored", "expired", "cancelled", "overdue", "interrupted", "reset", "died"]


async def _twice(act: Callable[[], Awaitable[object]]) -> None:
    for _ in range(2):
        await act()


async def _ends(world: World, how: str, new: NewRun) -> FinishedRun:
    """The end of a run, brought about in one of the ways there are; twice, where somebody could."""
    await world.accept(replace(new, deadline=timedelta(seconds=0.3)) if how == "expired" else new)
    key = new.address.conversation
    claim = await world.claim(key)
    reset, end = new_id(), final_write(claim, "hi", ending=ending(claim, "hi", parts=["hi"]))
    match how:
        case "stored":
            await _twice(lambda: world.store(claim, end))
        case "expired":
            await world.wait(0.4)
            await _twice(lambda: world.runs.expire(limit=9))
        case "cancelled":
            await world.runs.hand_back(key, worker=world.me, epoch=claim.epoch)
            await _twice(lambda: world.inbox.cancel(claim.run, reason="Anna stopped it."))
        case "overdue":
            await world.inbox.cancel(claim.run, reason="Anna stopped it.")
            await world.wait(0.01)
            await _twice(lambda: world.runs.cancel_overdue(older_than=timedelta(0), limit=9))
        case "interrupted":
            await world.store(claim, write(claim, messages=[said("", call("exec"))], step=1, stage="tools"))
            await world.store(claim, write(claim, waiting=waiting()))
            await world.accept(replace(new, id=new_id(), when_busy="interrupt", webhook=None))
        case "reset":
            await _twice(lambda: world.inbox.reset(key, reset, source="cli", sender="anna"))
        case _:
            await world.fence()
            await killed(world, key, 3)
    (finished,) = await world.inbox.outcomes([claim.run])
    return finished


@pytest.mark.parametrize("how", HOW)
async def test_an_end_is_carried_out_once_whoever_brings_it_about(world: World, how: str) -> None:
    """A person hears the answer, or why there is none; what they asked for themselves needs no words."""
    finished = await _ends(world, how, chat_message())
    told = {"stored": ["hi"], "expired": [finished.outcome.get("error")], "died": [finished.outcome.get("error")]}

    assert [row.text for row in await world.deliveries()] == told.get(how, [])
    assert {(row.run, row.kind) for row in await world.deliveries()} <= {(finished.run, "reply")}


@pytest.mark.parametrize("how", HOW)
async def test_an_end_is_posted_once_whoever_brings_it_about(world: World, how: str) -> None:
    """Who left an address hears of every end, with what they gave along."""
    new = new_run(webhook="callback", sender="bert", details={"notify_meta": {"ticket": 7, "room": None}})
    finished = await _ends(world, how, new)

    (posted,) = await world.webhooks()
    assert (posted.run, posted.target) == (finished.run, "callback")
    body = dict(posted.body)
    assert body.pop("session_id")
    assert body.pop("error", None) == finished.outcome.get("error")
    assert body == {
        "reply": "hi" if how == "stored" else "",
        "run_id": str(new.id),
        "state": finished.outcome["state"],
        "sender": "bert",
        "source": "http",
        "silent": False,
        "tokens": {"input": 0, "output": 0},
        "notify_meta": {"ticket": 7, "room": None},
    }


@pytest.mark.parametrize("how", HOW)
async def test_nothing_goes_out_that_nobody_wants(world: World, how: str) -> None:
    """Callers over HTTP fetch their outcome, and most leave no address."""
    finished = await _ends(world, how, new_run())

    assert finished.outcome["run_id"] == str(finished.run)
    assert finished.terminal.endswith("-18446744073709551615")
    assert await world.deliveries() == []
    assert await world.webhooks() == []


async def test_a_message_that_was_never_claimed_is_posted_too(world: World) -> None:
    """It has no session yet, and the caller waits all the same."""
    accepted = await world.accept(new_run(webhook="callback"))
    await world.inbox.cancel(accepted.run, reason="Anna stopped it.")

    (posted,) = await world.webhooks()
    assert "session_id" not in posted.body
    assert (posted.body["state"], posted.body["error"]) == ("cancelled", "Anna stopped it.")


async def test_an_answer_is_posted_with_what_it_took(world: World) -> None:
    """The figures are those of the outcome."""
    await world.accept(new_run(webhook="callback"))
    claim = await world.claim()
    outcome = {"state": "done", "reply": "", "silent": True, "tokens": {"input": 9, "output": 2, "cache_read": 1}}
    await world.store(claim, final_write(claim, ending=ending(claim, outcome=outcome)))

    (posted,) = await world.webhooks()
    assert (posted.body["silent"], posted.body["tokens"]) == (True, {"input": 9, "output": 2})


async def test_a_failed_run_says_why_unless_it_has_other_words(world: World) -> None:
    """The worker may word it for people; nobody is left without a sentence."""
    await world.accept(chat_message("one"))
    claim = await world.claim(CHAT)
    outcome = {"state": "failed", "reply": "", "error": "The model could not be reached."}
    await world.store(claim, final_write(claim, ending=ending(claim, state="failed", outcome=outcome)))
    await world.accept(chat_message("two"))
    claim = await world.claim(CHAT)
    worded = ending(claim, state="failed", outcome=outcome, parts=["Please try again."])
    await world.store(claim, final_write(claim, ending=worded))
    await world.accept(chat_message("three"))
    claim = await world.claim(CHAT)
    await world.store(claim, final_write(claim, ending=ending(claim, state="failed", parts=[])))

    assert [row.text for row in await world.deliveries()] == ["The model could not be reached.", "Please try again."]


async def test_a_failure_without_a_reason_says_nothing(world: World) -> None:
    """An empty message would be refused by the channel."""
    await world.accept(chat_message())
    claim = await world.claim(CHAT)
    await world.store(claim, final_write(claim, ending=ending(claim, state="failed")))

    assert await world.deliveries() == []


async def test_a_compaction_ends_without_a_word(world: World) -> None:
    """It answers nobody."""
    await world.accept(chat_message(kind="compact", webhook="callback"))
    claim = await world.claim(CHAT)
    outcome = {"state": "failed", "error": "The model could not be reached."}
    await world.store(claim, write(claim, ending=ending(claim, state="failed", outcome=outcome)))

    assert await world.deliveries() == []
    assert await world.webhooks() == []


# acts that nobody knows the end of

DOUBT = "I was interrupted while using 'exec': it may or may not have happened. I did not repeat it by myself."


async def test_an_act_without_a_result_is_in_doubt_and_that_is_said(world: World) -> None:
    """It is never silently repeated, and never silently forgotten."""
    claim = await _acting(world)
    end = final_write(claim, "hi", ending=ending(claim, "hi", parts=["hi"]))
    stored = await world.written(claim, end)

    assert stored.outcome is not None
    assert stored.outcome["notices"] == [DOUBT]
    (finished,) = await world.inbox.outcomes([claim.run])
    assert finished.outcome == stored.outcome
    assert [row.text for row in await world.deliveries()] == ["hi", DOUBT]
    assert await world.written(claim, end) == stored


async def test_what_is_in_doubt_is_said_beside_other_notices(world: World) -> None:
    """What the run had to say itself stands first."""
    claim = await _acting(world)
    outcome = {"state": "done", "reply": "hi", "notices": ["It was cut short."]}
    stored = await world.written(claim, write(claim, ending=ending(claim, outcome=outcome, parts=["hi"])))

    assert stored.outcome == {**outcome, "notices": ["It was cut short.", DOUBT]}


async def test_a_run_that_ends_as_it_was_given_says_nothing_more(world: World) -> None:
    """Most runs do."""
    claim = await _acting(world)
    done = EffectResult(0, "done", {"tool_use_id": "c1", "content": "ok"})
    stored = await world.written(claim, write(claim, results=[done], ending=ending(claim)))

    assert stored.outcome is None
    assert list(stored.followers) == []


@pytest.mark.parametrize("how", ["step", "end", "hand back"])
async def test_a_round_of_which_nothing_was_begun_leaves_no_doubt(world: World, how: str) -> None:
    """Whoever intended it knows best."""
    claim = await _acting(world)
    match how:
        case "step":
            await world.store(claim, write(claim, unbegun=True))
        case "end":
            await world.store(claim, write(claim, unbegun=True, ending=ending(claim)))
        case _:
            await world.runs.hand_back(CHAT, worker=world.me, epoch=claim.epoch, unbegun=True)
            taken = await world.claim(CHAT)
            assert list(taken.effects) == []
    await world.inbox.reset(CHAT, new_id(), source="cli", sender="anna")

    (finished,) = await world.inbox.outcomes([claim.run])
    assert "notices" not in finished.outcome
    assert await world.deliveries() == []


@pytest.mark.parametrize("who", ["reset", "cancel", "died"])
async def test_an_end_from_outside_says_what_is_in_doubt(world: World, who: str) -> None:
    """Though nobody wants an answer any more, an act may have happened."""
    claim = await _acting(world)
    match who:
        case "reset":
            await world.inbox.reset(CHAT, new_id(), source="cli", sender="anna")
        case "cancel":
            await world.fence()
            await world.inbox.cancel(claim.run, reason="Anna stopped it.")
        case _:
            await world.fence()
            await killed(world, CHAT, 3)

    (finished,) = await world.inbox.outcomes([claim.run])
    assert finished.outcome["notices"] == [DOUBT]
    assert [row.text for row in await world.deliveries()][-1] == DOUBT


async def _acting(world: World) -> Claim:
    """A run of a channel that has begun an act."""
    await world.accept(chat_message())
    claim = await world.claim(CHAT)
    intent = Intent(0, "c1", "exec", "once", "ab" * 32)
    step = write(claim, messages=[said("", call("exec"))], settle=settlement(claim), intents=[intent], step=1)
    await world.store(claim, replace(step, stage="tools"))
    return claim
