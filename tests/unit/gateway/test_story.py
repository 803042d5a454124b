"""The story of a run, from rows as Postgres would give them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from services.gateway.rules.run_name import ids_named
from services.gateway.rules.story import story
from shared.errors import BadInput
from shared.ids import new_id
from shared.ports.stories import StoryRows

NOON = datetime(2026, 5, 21, 12, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    return (NOON + timedelta(seconds=seconds)).isoformat()


def run(**fields: Any) -> dict[str, Any]:
    """A run that was answered after ten seconds."""
    whole = {
        "id": "run-1", "conversation": "cli", "ordinal": 3, "kind": "message", "state": "done", "source": "cli",
        "tier": "full", "attempts": 1, "when_busy": "queue", "accepted_at": at(0), "claimed_at": at(0.5),
        "finished_at": at(10), "published_at": at(10.1), "merged_into": None, "retry_of": None, "retried_as": None,
        "error": None, "turns": 2,
    }  # fmt: skip
    return {**whole, **fields}


def event(after: float, type: str, /, **payload: Any) -> dict[str, Any]:
    return {"at": at(after), "type": type, "payload": payload}


def call(seconds: float, **fields: Any) -> dict[str, Any]:
    """A model call that was booked."""
    whole = {
        "call_id": "c", "worker": "w1", "made_at": at(seconds - 1), "at": at(seconds), "call_type": "agentic",
        "model": "m1", "input_tokens": 100, "output_tokens": 10, "cost": "0.0021", "currency": "USD",
        "estimated": False, "latency_ms": 900, "worst_case": "0.75",
    }  # fmt: skip
    return {**whole, **fields}


def tell(**rows: Any) -> dict[str, Any]:
    return story(StoryRows(**{"now": NOON + timedelta(seconds=60), "run": run(), **rows}))


def line(told: dict[str, Any]) -> list[tuple[float, str]]:
    return [(entry["after_seconds"], entry["what"]) for entry in told["story"]]


def test_a_plain_answer_is_told_in_order_with_times_from_its_acceptance() -> None:
    """What an operator reads first."""
    told = tell(
        key={"scope": "default /api/v1/chat"},
        events=[event(0.5, "run_claimed", worker="w1", epoch=1, attempt=1), event(10, "run_done")],
        calls=[call(2), call(9)],
        effects=[{"tool": "exec", "class": "once", "state": "done", "step": 1, "call_index": 0, "epoch": 1,
                  "intended_at": at(3), "ended_at": at(8)}],
        steps=[{"step": 0, "epoch": 1, "stored_at": at(2)}],
    )  # fmt: skip
    assert line(told) == [
        (0.0, "accepted"), (0.5, "claimed"), (2.0, "model"), (2.0, "step_stored"), (3.0, "tool"), (8.0, "tool_ended"),
        (9.0, "model"), (10.0, "ended"), (10.1, "published"),
    ]  # fmt: skip
    assert told["story"][0]["idempotency_scope"] == "default /api/v1/chat"
    assert told["story"][1] | {"at": ""} == {
        "what": "claimed", "at": "", "after_seconds": 0.5, "worker": "w1", "epoch": 1, "attempt": 1,
    }  # fmt: skip
    assert told["times"] == {
        "total_seconds": 10.0, "for_a_worker_seconds": 0.5, "in_model_seconds": 1.8, "in_tools_seconds": 5.0,
        "waiting_seconds": 0.0,
    }  # fmt: skip
    assert told["costs"] == [{"currency": "USD", "cost": 0.0042, "calls": 2, "estimated": 0, "unsettled": 0}]


def test_a_worker_that_died_with_it_is_named_and_one_that_died_later_is_not() -> None:
    """The second question after 'what happened' is 'who did it happen to'."""
    told = tell(
        events=[
            event(1, "run_claimed", worker="w1", epoch=1, attempt=1),
            event(4, "run_suspected", worker="w1", level=1),
            event(5, "run_claimed", worker="w2", epoch=2, attempt=2),
        ],
        workers=[
            {"worker": "w1", "host": "a", "pid": 7, "state": "fenced", "ended_at": at(4)},
            {"worker": "w2", "host": "b", "pid": 8, "state": "fenced", "ended_at": at(30)},
            {"worker": "w3", "host": "b", "pid": 9, "state": "alive", "ended_at": None},
        ],
    )
    assert [entry for entry in told["story"] if entry["what"] == "worker_fenced"] == [
        {"what": "worker_fenced", "at": at(4), "after_seconds": 4.0, "worker": "w1", "host": "a", "pid": 7}
    ]
    assert (4.0, "suspected") in line(told)


def test_a_sub_agent_is_told_by_its_run() -> None:
    """Its own story is the next one to read."""
    told = tell(events=[event(2, "child_spawned", child="r2", step=1, call_index=0, depth=1)])
    assert {"what": "child_spawned", "at": at(2), "after_seconds": 2.0, "child": "r2"} in told["story"]


def test_calls_that_nobody_has_booked_and_guesses_are_told_apart() -> None:
    """Money that may be owed is not money that was paid."""
    told = tell(calls=[call(2, estimated=True, cost="0.75"), call(3, cost=None, at=None), call(4, currency="EUR")])
    assert told["costs"] == [
        {"currency": "EUR", "cost": 0.0021, "calls": 1, "estimated": 0, "unsettled": 0},
        {"currency": "USD", "cost": 0.75, "calls": 2, "estimated": 1, "unsettled": 1},
    ]
    open_call = next(entry for entry in told["story"] if entry["what"] == "call_open")
    assert (open_call["after_seconds"], open_call["worst_case"]) == (2.0, 0.75)


def test_waits_are_added_up_and_tools_side_by_side_are_counted_once() -> None:
    """Ten tools of five seconds each at once are five seconds."""
    told = tell(
        run=run(state="waiting", finished_at=None, published_at=None),
        events=[
            event(1, "run_claimed", worker="w1", epoch=1, attempt=1),
            event(10, "run_waiting", reason="approval", seconds=None),
            event(25, "run_claimed", worker="w1", epoch=2, attempt=1),
            event(40, "run_waiting", reason="retry", seconds=30),
        ],
        effects=[
            {"tool": "read", "class": "read", "state": "done", "step": 1, "call_index": index, "epoch": 1,
             "intended_at": at(2 + index), "ended_at": at(6 + index)} for index in range(3)
        ],
    )  # fmt: skip
    assert told["times"]["waiting_seconds"] == 35.0
    assert told["times"]["in_tools_seconds"] == 6.0
    assert told["times"]["total_seconds"] == 60.0


def test_one_that_waits_for_a_worker_says_for_how_long() -> None:
    """No claim, no end: nobody has it."""
    told = tell(run=run(state="accepted", claimed_at=None, finished_at=None, published_at=None))
    assert line(told) == [(0.0, "accepted")]
    assert told["times"]["for_a_worker_seconds"] == 60.0


def test_merged_messages_name_each_other() -> None:
    """Whoever asks for one of them finds the other."""
    leader = tell(merged=[{"run": "run-2", "ordinal": 4, "accepted_at": at(0.2)}])
    assert (0.2, "merged") in line(leader)
    follower = tell(run=run(id="run-2", state="merged", merged_into="run-1", claimed_at=None))
    assert {"what": "merged_into", "at": at(0), "after_seconds": 0.0, "run": "run-1"} in follower["story"]
    assert follower["times"]["for_a_worker_seconds"] is None


def test_what_went_out_is_told_with_its_tries() -> None:
    """The answer was written, and yet nobody got it."""
    told = tell(
        webhooks=[{"webhook": "h1", "target": "callback", "state": "pending", "attempts": 3, "last_status": 503,
                   "error": "the receiver answered 503", "created_at": at(10), "due_at": at(70), "sent_at": None}],
        deliveries=[{"delivery": "d1", "channel": "telegram", "part": 1, "kind": "reply", "state": "sent",
                     "attempts": 1, "error": None, "created_at": at(10), "due_at": at(10), "sent_at": at(11)}],
        events=[event(12, "webhook_revived", webhook="h1")],
    )  # fmt: skip
    webhook = next(entry for entry in told["story"] if entry["what"] == "webhook")
    assert (webhook["attempts"], webhook["last_status"], webhook["error"]) == (3, 503, "the receiver answered 503")
    assert (11.0, "delivery_sent") in line(told)
    assert (12.0, "webhook_revived") in line(told)


def test_of_audit_events_only_known_facts_are_repeated() -> None:
    """A row may hold more one day; nobody then has to remember this place."""
    told = tell(events=[event(1, "session_opened", text="a private word"), event(2, "new_thing", reason="because")])
    assert b"private" not in orjson.dumps(told)
    assert told["story"][2] | {"at": ""} == {
        "what": "new_thing", "at": "", "after_seconds": 2.0, "reason": "because",
    }  # fmt: skip


def test_a_run_is_named_by_its_id_or_the_beginning_of_it() -> None:
    """People copy what they see in a log."""
    id = new_id()
    assert ids_named(str(id)) == (id, id)
    assert ids_named(id.hex.upper()) == (id, id)
    first, last = ids_named(str(id)[:13])
    assert first < id < last
    for bad in ("", "0198", "zzzzzzzzz", "0198abcd" * 5, "\uff10" * 8):
        with pytest.raises(BadInput):
            ids_named(bad)


def test_what_one_transaction_stored_is_told_in_the_order_in_which_it_came_about() -> None:
    """All its rows have one time; a tool does not begin before the answer that asked for it."""
    begun = {"tool": "exec", "class": "once", "state": "done", "step": 1, "call_index": 0, "epoch": 1,
             "intended_at": at(2), "ended_at": at(3)}  # fmt: skip
    local = {**begun, "tool": "note", "class": "local", "intended_at": at(3), "ended_at": at(3)}
    steps = [{"step": 0, "epoch": 1, "stored_at": at(2)}, {"step": 1, "epoch": 1, "stored_at": at(3)}]
    told = tell(effects=[begun, local], calls=[call(2)], steps=steps)
    assert [(entry["what"], entry.get("tool")) for entry in told["story"][1:-2]] == [
        ("model", None), ("step_stored", None), ("tool", "exec"),
        ("tool_ended", "exec"), ("tool", "note"), ("tool_ended", "note"), ("step_stored", None),
    ]  # fmt: skip
