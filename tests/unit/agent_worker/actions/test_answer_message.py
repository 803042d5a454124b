"""How one message becomes one reply."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from services.agent_worker.actions.answer_message import OUT_OF_TIME
from services.agent_worker.actions.desk import CompactionManner
from services.agent_worker.actions.work_on import INTERNAL
from services.agent_worker.rules.run_loop import COST_NOTICE, CUT_NOTE, EMPTY_NOTICE, Limits, turn_notice
from shared.domain.money import Usage
from shared.messages.run_events import id_order
from shared.ports.model import ModelAnswer
from tests.builders import RATES, call
from tests.faults import Interrupted
from tests.unit.agent_worker.actions.workroom import Room, Tools, with_manner

BOUGHT = Usage(input=1000, output=100)
PRICE = RATES.cost(BOUGHT)


def says(text: str, usage: Usage = BOUGHT) -> ModelAnswer:
    return ModelAnswer(text, usage=usage)


def asks(*calls: tuple[str, str], text: str = "", usage: Usage = BOUGHT) -> ModelAnswer:
    asked = [call(name, id, x=id) for name, id in calls]
    return ModelAnswer(text, tool_calls=asked, stop_reason="tool_use", usage=usage)


async def test_a_message_is_answered_in_three_commits() -> None:
    """Accept, claim, and answer with end: the budget of a run without tools."""
    room = await Room(says("hi there")).open()
    outcome = await room.answer("hello")

    assert (outcome["state"], outcome["reply"], outcome["silent"]) == ("done", "hi there", False)
    assert (outcome["turns"], outcome["notices"]) == (1, [])
    assert outcome["tokens"] == {"input": 1000, "output": 100, "cache_read": 0, "cache_write": 0}
    assert Decimal(str(outcome["cost"])) == PRICE
    assert len(room.runs.writes) == 1
    assert room.roles() == ["user", "assistant"]
    assert await room.every_call_is_booked()


async def test_the_model_is_told_the_time_and_reads_what_was_said_before() -> None:
    """A conversation goes on; it does not begin anew with each message."""
    room = await Room(says("first"), says("second")).open()
    await room.answer("one")
    room.clock.advance(60)
    await room.answer("two")

    assert [message["role"] for message in room.model.requests[1].messages] == ["user", "assistant", "user"]
    last = room.model.requests[1].messages[-1]
    assert last["role"] == "user"
    assert last["content"] == "[Thu, 21. May 2026 - 21:34 UTC]\ntwo"
    assert [block["tier"] for block in room.model.requests[1].system] == ["stable", "dynamic"]


async def test_two_rounds_of_tools_lead_to_an_answer() -> None:
    """Model, tools, model, tools, model; each step is stored before the next begins."""
    room = await Room(asks(("read", "a"), ("exec", "b")), asks(("exec", "c")), says("done")).open()
    run = await room.accept()
    await room.serve()
    outcome = await room.outcome(run)

    assert (outcome["reply"], outcome["turns"]) == ("done", 3)
    assert Decimal(str(outcome["cost"])) == 3 * PRICE
    assert room.roles() == ["user", "assistant", "tool_results", "assistant", "tool_results", "assistant"]
    assert room.all_calls_have_results()
    assert [row.cost for row in await room.world.booked()] == [PRICE] * 3
    assert await room.every_call_is_booked()
    keys = [key for _, key in room.tools.done]
    assert keys == [f"{run}:1:0", f"{run}:1:1", f"{run}:3:0"]
    events = await room.events(run)
    kinds = [event.type for event in events if event.type != "delta"]
    assert kinds[0] == "attempt"
    assert kinds.count("tool_started") == kinds.count("tool_finished") == 3
    assert kinds[-1] == "done"
    orders = [id_order(event.id) for event in events]
    assert orders == sorted(set(orders))


async def test_the_model_reads_results_in_the_order_of_its_calls() -> None:
    """Whichever tool is quicker: providers match results to calls, and people read them in order."""
    slow = asyncio.Event()

    async def wait(_: object) -> str:
        await slow.wait()
        return "slow"

    async def release(_: object) -> str:
        slow.set()
        return "quick"

    tools = Tools({"slow": "read", "quick": "read"}, doing={"slow": wait, "quick": release})
    room = await Room(asks(("slow", "a"), ("quick", "b")), says("ok"), tools=tools).open()
    await asyncio.wait_for(room.answer(), 20)  # one after the other, this would never end

    results = room.model.requests[1].messages[-1]
    assert results["role"] == "tool_results"
    assert [(one["tool_use_id"], one["content"]) for one in results["results"]] == [("a", "slow"), ("b", "quick")]


async def test_a_tool_that_fails_is_for_the_model_to_deal_with() -> None:
    """An error is a result like any other."""

    async def fail(_: object) -> str:
        return "Error: no such file"

    tools = Tools({"read": "read"}, doing={"read": fail})
    room = await Room(asks(("read", "a"), ("unknown", "b")), says("could not"), tools=tools).open()
    run = await room.accept()
    await room.serve()

    assert (await room.outcome(run))["reply"] == "could not"
    finished = {
        event.data["call_id"]: event.data["ok"] for event in await room.events(run) if event.type == "tool_finished"
    }
    assert finished == {"a": False, "b": False}
    assert room.all_calls_have_results()


async def test_at_the_turn_limit_the_run_ends_with_a_sentence() -> None:
    """The model is warned when two turns are left; the person is told; history stays whole."""
    rounds = [asks(("read", f"c{turn}"), text=f"step {turn}") for turn in range(1, 4)]
    room = await Room(*rounds, manner=with_manner(limits=Limits(3, Decimal(0)))).open()
    outcome = await room.answer()

    assert outcome["state"] == "done"
    assert outcome["reply"] == f"step 3\n\n{turn_notice(3)}"
    assert outcome["notices"] == [turn_notice(3)]
    assert outcome["turns"] == 3
    assert len(room.tools.done) == 2  # what was asked for last did not run
    assert room.all_calls_have_results()
    assert room.history()[-1] == {"role": "assistant", "text": turn_notice(3)}
    contents = [row["results"][-1]["content"] for row in room.history() if row["role"] == "tool_results"]
    assert ["Two turns are left" in content for content in contents] == [True, False, False]


@pytest.mark.parametrize(("text", "reply"), [("so far", "so far"), ("", COST_NOTICE)])
async def test_at_the_cost_limit_no_tool_runs_any_more(text: str, reply: str) -> None:
    """What was asked for by the answer that broke the limit must not outlive the money."""
    room = await Room(asks(("exec", "a"), text=text), manner=with_manner(limits=Limits(9, PRICE))).open()
    outcome = await room.answer()

    assert (outcome["reply"], outcome["notices"]) == (reply, [COST_NOTICE])
    assert room.tools.done == []
    assert room.all_calls_have_results()
    assert await room.every_call_is_booked()


async def test_the_cost_limit_counts_what_earlier_attempts_have_paid() -> None:
    """Else every crash would double it."""
    manner = with_manner(limits=Limits(9, 2 * PRICE))
    room = await Room(asks(("read", "a")), manner=manner).open()
    run = await room.accept()
    room.runs.die_before = 2
    with pytest.raises(Interrupted):
        await room.serve()
    heir = await room.heir(asks(("read", "b")))
    await heir.serve()
    outcome = await heir.outcome(run)

    assert outcome["notices"] == [COST_NOTICE]
    assert Decimal(str(outcome["cost"])) == 2 * PRICE


async def test_an_empty_answer_is_told_as_one() -> None:
    """Silence by accident looks like a broken agent."""
    room = await Room(says("  ")).open()
    outcome = await room.answer()

    assert (outcome["reply"], outcome["notices"], outcome["silent"]) == (EMPTY_NOTICE, [EMPTY_NOTICE], False)


async def test_text_beside_tools_stands_in_for_an_empty_answer() -> None:
    """The model has said what it had to say already."""
    room = await Room(asks(("read", "a"), text="here you are"), says("")).open()
    outcome = await room.answer()

    assert (outcome["reply"], outcome["notices"]) == ("here you are", [])


async def test_a_silent_reply_is_marked_and_kept() -> None:
    """It is not delivered, but it was said."""
    room = await Room(says("NO_REPLY"), manner=with_manner(silent_tokens=("NO_REPLY",))).open()
    outcome = await room.answer()

    assert (outcome["reply"], outcome["silent"]) == ("NO_REPLY", True)
    assert room.roles() == ["user", "assistant"]


async def test_an_answer_that_was_cut_is_told_to_the_model_once() -> None:
    """Else it goes on at the same length and is cut again."""
    cut = replace(asks(("read", "a")), stop_reason="max_tokens")
    room = await Room(cut, asks(("read", "b")), says("short")).open()
    await room.answer()

    contents = [row["results"][-1]["content"] for row in room.history() if row["role"] == "tool_results"]
    assert [CUT_NOTE in content for content in contents] == [True, False]


async def test_a_run_whose_time_is_over_ends_while_the_model_still_thinks() -> None:
    """The person is told, the call that was out is booked, and the next message finds a clean history."""
    room = await Room(asyncio.Event()).open()
    run = await room.accept(deadline=timedelta(milliseconds=50))
    await room.serve()
    outcome = await room.outcome(run)

    assert (outcome["state"], outcome["error"], outcome["reply"]) == ("failed", OUT_OF_TIME, "")
    assert room.roles() == []
    assert await room.every_call_is_booked()
    (booked,) = await room.world.booked()
    assert booked.estimated
    assert booked.cost > 0  # the provider has read the question, whatever it was going to say


async def test_a_run_whose_time_is_over_ends_while_a_tool_still_works() -> None:
    """The tool is stopped, and history closes its call."""
    stopped = []

    async def hang(_: object) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append("exec")
            raise
        return ""

    room = await Room(
        asks(("exec", "a"), ("read", "b")), tools=Tools({"exec": "once", "read": "read"}, {"exec": hang})
    ).open()
    run = await room.accept(deadline=timedelta(milliseconds=80))
    await room.serve()

    assert (await room.outcome(run))["state"] == "failed"
    assert stopped == ["exec"]
    assert room.roles() == ["user", "assistant", "tool_results", "assistant"]
    assert room.all_calls_have_results()
    assert await room.every_call_is_booked()


async def test_time_that_ends_while_a_step_is_stored_leaves_history_whole() -> None:
    """Whether the step is in Postgres or not: results without their call make a provider refuse all that follows."""
    room = await Room(asks(("exec", "a"))).open()
    room.runs.pauses = [0.2]
    run = await room.accept(deadline=timedelta(milliseconds=50))
    await room.serve()

    assert (await room.outcome(run))["state"] == "failed"
    assert room.all_calls_have_results()


async def test_a_fault_of_our_own_is_told_and_the_line_goes_on() -> None:
    """A bug must not hold up everything that was said after it."""
    room = await Room(ValueError("a bug"), says("fine")).open()
    run = await room.accept("one")
    following = await room.accept("two")
    await room.serve()

    broken, fine = await room.outcome(run), await room.outcome(following)
    assert (broken["state"], broken["error"]) == ("failed", INTERNAL)
    assert fine["reply"] == "fine"
    assert [message["role"] for message in room.model.requests[1].messages] == ["user"]
    assert await room.every_call_is_booked()


async def test_at_eighty_percent_the_agent_is_warned_once() -> None:
    """It may write down what it must not forget."""
    manner = with_manner(compaction=CompactionManner(threshold=1000))
    usages = [Usage(input=700), Usage(input=800), Usage(input=900), Usage(input=950)]
    room = await Room(*[says("ok", usage) for usage in usages], manner=manner).open()
    for text in ("one", "two", "three", "four"):
        await room.answer(text)

    warned = [row["content"] for row in room.history() if row["role"] == "user" and row.get("warning")]
    assert warned == ["three"]
    seen = room.model.requests[2].messages[-1]
    assert seen["role"] == "user"
    assert str(seen["content"]).startswith("[system: This conversation fills 80 % of what it may hold;")


async def test_above_the_threshold_a_compaction_stands_next_in_line() -> None:
    """The person has the answer first."""
    manner = with_manner(compaction=CompactionManner(threshold=1000, min_messages=2))
    room = await Room(says("ok", Usage(input=1001)), says("they greeted"), says("ok"), manner=manner).open()
    await room.answer("one")

    assert len(room.model.requests) == 2
    session = next(iter(room.world.tables.sessions.values()))
    assert (session.summary, session.compaction_count, session.context_tokens) == ("they greeted", 1, 0)
    assert await room.every_call_is_booked()
