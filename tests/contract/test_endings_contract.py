"""Ends that are brought about from outside, asked of the fake and of Postgres."""

from datetime import timedelta

from shared.ids import new_id
from shared.messages.run_events import terminal_id
from tests.builders import (
    CONVERSATION,
    bodies,
    call,
    final_write,
    new_run,
    results,
    said,
    write,
)
from tests.runs_worlds import World, with_tools_open


async def test_a_run_nobody_took_fails_at_its_deadline(world: World) -> None:
    """No accepted message stays without an end."""
    late = await world.accept(new_run(deadline=timedelta(milliseconds=10)))
    await world.accept(new_run("next"))
    await world.wait(0.05)

    assert list(await world.runs.expire(limit=10)) == [late.run]
    assert list(await world.runs.expire(limit=10)) == []
    (finished,) = await world.runs.outcomes([late.run])
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
    reset = await world.runs.reset(CONVERSATION, reset_id, source="http", sender="anna")
    assert reset is not None
    assert (reset.session, list(reset.cancelled)) == (claim.session.id, [claim.run])
    again = await world.runs.reset(CONVERSATION, reset_id, source="http", sender="anna")
    assert again is not None
    assert (again.session, list(again.cancelled)) == (claim.session.id, [])

    (finished,) = await world.runs.outcomes([claim.run])
    assert (finished.outcome["state"], finished.terminal) == ("cancelled", terminal_id(claim.epoch))
    following = await world.claim()
    assert (following.text, following.ordinal) == ("two", 2)
    assert following.session.id != claim.session.id
    assert following.epoch > claim.epoch + 1
    assert [body["content"] for body in bodies(following)] == ["two"]


async def test_a_session_that_is_closed_ends_with_no_open_tool_call(world: World) -> None:
    """It is still read: by people, and by whoever draws memories from it."""
    claim = await with_tools_open(world)
    assert await world.runs.reset(CONVERSATION, new_id(), source="http", sender="anna") is not None

    told = [body for body in await world.messages(claim.session.id)]
    assert [body["role"] for body in told] == ["user", "assistant", "tool_results", "assistant"]
    assert [result["tool_use_id"] for result in told[2]["results"]] == ["c1", "c2"]
    assert told[3]["text"].startswith("[Stopped: ")


async def test_a_reset_of_nothing_says_so(world: World) -> None:
    """Resetting twice is no fault."""
    assert await world.runs.reset("cli", new_id(), source="cli", sender="me") is None
    await world.accept(new_run())
    assert await world.runs.reset(CONVERSATION, new_id(), source="cli", sender="me") is None
    claim = await world.claim()
    await world.store(claim, final_write(claim))
    assert await world.runs.reset(CONVERSATION, new_id(), source="cli", sender="me") is not None
    assert await world.runs.reset(CONVERSATION, new_id(), source="cli", sender="me") is None
