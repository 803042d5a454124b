"""The story of one run, told from its rows: what happened, in the order in which it did."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from shared.ports.stories import Row, StoryRows

Entry = dict[str, Any]

_TOLD_BY_ROWS = frozenset({"run_done", "run_failed", "run_cancelled", "run_merged", "run_dead", "effect_in_doubt"})
"""Audit events of which other rows say the same, and more."""

_NAMES: Mapping[str, str] = {
    "run_claimed": "claimed",
    "run_handed_back": "handed_back",
    "run_waiting": "waiting",
    "run_answered": "answered",
    "run_cancel_asked": "cancel_asked",
    "run_suspected": "suspected",
    "run_dismissed": "dismissed",
}
_FACTS = (
    "worker", "epoch", "attempt", "attempts", "level", "reason", "seconds", "allowed", "delivery", "webhook", "child",
)  # fmt: skip
"""What may be repeated of an audit event; everything else stays in its table."""

_OF_DELIVERIES = ("delivery", "channel", "part", "kind", "state", "attempts", "error", "due_at")
_OF_WEBHOOKS = ("webhook", "target", "state", "attempts", "last_status", "error", "due_at")


def story(rows: StoryRows) -> dict[str, Any]:
    """Body of GET /api/v1/runs/{id}/story. Times are seconds; ``after_seconds`` counts from acceptance."""
    run = rows.run
    begun = _time(run["accepted_at"])
    told = sorted(_entries(rows), key=lambda entry: _time(entry["at"]))
    kept = ("conversation", "ordinal", "kind", "state", "source", "tier", "attempts", "accepted_at", "finished_at")
    return {
        "run_id": run["id"],
        **{name: run[name] for name in kept},
        "merged_into": run.get("merged_into"),
        "retry_of": run.get("retry_of"),
        "retried_as": run.get("retried_as"),
        "error": run.get("error"),
        "times": _times(rows),
        "costs": _costs(rows.calls),
        "story": [
            {"at": entry["at"], "after_seconds": _seconds(_time(entry["at"]) - begun), **entry} for entry in told
        ],
    }


def _entries(rows: StoryRows) -> Iterator[Entry]:
    """In an order that makes sense where two happened in one transaction."""
    yield from _beginning(rows)
    yield from _lost_workers(rows)
    yield from _from_events(rows.events)
    # One transaction stores an answer, its step, and the tools it asked for; another their results and their step.
    yield from _calls(rows.calls)
    for effect in rows.effects:
        if effect["intended_at"] == effect.get("ended_at"):
            yield _tool(effect)
        yield from _moment("tool_ended", effect.get("ended_at"), effect, "tool", "state", "step", "call_index")
    for step in rows.steps:
        yield _entry("step_stored", step["stored_at"], step, "step", "epoch")
    yield from (_tool(effect) for effect in rows.effects if effect["intended_at"] != effect.get("ended_at"))
    for approval in rows.approvals:
        yield _entry("approval_asked", approval["asked_at"], approval, "tool", "step", "call_index")
        yield from _moment("approval_decided", approval.get("decided_at"), approval, "tool", "state", "decided_by")
    yield from _end(rows.run)
    for delivery in rows.deliveries:
        yield _entry("delivery", delivery["created_at"], delivery, *_OF_DELIVERIES)
        yield from _moment("delivery_sent", delivery.get("sent_at"), delivery, "delivery", "channel", "part")
    for webhook in rows.webhooks:
        yield _entry("webhook", webhook["created_at"], webhook, *_OF_WEBHOOKS)
        yield from _moment("webhook_sent", webhook.get("sent_at"), webhook, "webhook", "target", "attempts")


def _tool(effect: Row) -> Entry:
    return _entry("tool", effect["intended_at"], effect, "tool", "class", "state", "step", "call_index", "epoch")


def _beginning(rows: StoryRows) -> Iterator[Entry]:
    run = rows.run
    accepted = _entry("accepted", run["accepted_at"], run, "source", "ordinal", "tier", "when_busy", "retry_of")
    if rows.key is not None:
        accepted["idempotency_scope"] = rows.key["scope"]
    yield accepted
    if run.get("merged_into"):
        yield {"what": "merged_into", "at": run["accepted_at"], "run": run["merged_into"]}
    for merged in rows.merged:
        yield _entry("merged", merged["accepted_at"], merged, "run", "ordinal")


def _from_events(events: Sequence[Row]) -> Iterator[Entry]:
    for event in events:
        if event["type"] not in _TOLD_BY_ROWS:
            what: str = _NAMES.get(event["type"], event["type"])
            yield _entry(what, event["at"], event["payload"], *_FACTS)


def _lost_workers(rows: StoryRows) -> Iterator[Entry]:
    """Workers that were fenced while they had it in hand."""
    claims = [event for event in rows.events if event["type"] == "run_claimed"]
    ends = [*(claim["at"] for claim in claims[1:]), rows.run.get("finished_at") or rows.now.isoformat()]
    fenced = {worker["worker"]: worker for worker in rows.workers if worker["state"] == "fenced"}
    for claim, end in zip(claims, ends, strict=False):
        worker = fenced.get(claim["payload"].get("worker"))
        if worker is not None and _time(claim["at"]) <= _time(worker["ended_at"]) <= _time(end):
            yield _entry("worker_fenced", worker["ended_at"], worker, "worker", "host", "pid")


def _calls(calls: Sequence[Row]) -> Iterator[Entry]:
    tokens = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    for call in calls:
        if call.get("cost") is None:
            entry = _entry("call_open", call["made_at"], call, "call_id", "model", "worker", "currency")
            yield {**entry, "worst_case": float(Decimal(call["worst_case"]))}
            continue
        entry = _entry("model", call["at"], call, "call_id", "call_type", "model", "worker", "currency", *tokens)
        entry |= {"cost": float(Decimal(call["cost"])), "estimated": bool(call.get("estimated"))}
        if call.get("latency_ms") is not None:
            entry["took_seconds"] = call["latency_ms"] / 1000
        yield entry


def _end(run: Row) -> Iterator[Entry]:
    yield from _moment("ended", run.get("finished_at"), run, "state", "error", "turns", "silent", "merged_into")
    yield from _moment("published", run.get("published_at"), run)


def _times(rows: StoryRows) -> dict[str, float | None]:
    run = rows.run
    begun = _time(run["accepted_at"])
    until = _time(run["finished_at"]) if run.get("finished_at") else rows.now
    claimed = run.get("claimed_at")
    merged = bool(run.get("merged_into")) and claimed is None
    tools = [(_time(each["intended_at"]), _time(each["ended_at"])) for each in rows.effects if each.get("ended_at")]
    return {
        "total_seconds": _seconds(until - begun),
        "for_a_worker_seconds": None if merged else _seconds((_time(claimed) if claimed else until) - begun),
        "in_model_seconds": round(sum(call.get("latency_ms") or 0 for call in rows.calls) / 1000, 3),
        "in_tools_seconds": _seconds(_covered(tools)),
        "waiting_seconds": _seconds(_covered(list(_waits(rows.events, until)))),
    }


def _waits(events: Sequence[Row], until: datetime) -> Iterator[tuple[datetime, datetime]]:
    since: datetime | None = None
    for event in events:
        if event["type"] == "run_waiting":
            since = _time(event["at"])
        elif event["type"] == "run_claimed" and since is not None:
            yield since, _time(event["at"])
            since = None
    if since is not None:
        yield since, until


def _covered(spans: Sequence[tuple[datetime, datetime]]) -> timedelta:
    """Tools run side by side; a second is counted once."""
    whole, end = timedelta(0), None
    for start, stop in sorted(spans):
        begin = start if end is None else max(start, end)
        whole += max(timedelta(0), stop - begin)
        end = stop if end is None else max(end, stop)
    return whole


def _costs(calls: Sequence[Row]) -> list[dict[str, Any]]:
    """One entry for each currency: money of different ones is never added up."""
    currencies = sorted({call["currency"] for call in calls})
    return [_sum(currency, [call for call in calls if call["currency"] == currency]) for currency in currencies]


def _sum(currency: str, calls: Sequence[Row]) -> dict[str, Any]:
    paid = [call for call in calls if call.get("cost") is not None]
    return {
        "currency": currency,
        "cost": float(sum((Decimal(call["cost"]) for call in paid), Decimal(0))),
        "calls": len(calls),
        "estimated": sum(bool(call.get("estimated")) for call in paid),
        "unsettled": len(calls) - len(paid),
    }


def _moment(what: str, at: str | None, row: Mapping[str, Any], *names: str) -> Iterator[Entry]:
    if at is not None:
        yield _entry(what, at, row, *names)


def _entry(what: str, at: str, row: Mapping[str, Any], *names: str) -> Entry:
    return {"what": what, "at": at, **{name: row[name] for name in names if row.get(name) is not None}}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _seconds(span: timedelta) -> float:
    return round(span.total_seconds(), 3)
