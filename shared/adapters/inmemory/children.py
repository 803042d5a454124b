"""Sub-agents without a database; see ``0017_children.sql`` and ``0022_children_again.sql``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from shared.adapters.inmemory.cancel import cancel
from shared.adapters.inmemory.rows import ChildRow, ConversationRow, ReservationRow, RunRow
from shared.adapters.inmemory.tables import Tables, as_json
from shared.domain.child_run import CHILD_CONVERSATIONS, child_of
from shared.ports.children import Leave, Purse

PARENT_ENDED = "The run that asked for it has ended."
ENDS = {"cancelled": "was cancelled", "dead": "was given up"}
NEEDS = 4


def spawning(tables: Tables) -> Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]:
    """The act ``spawn`` over these tables."""

    def spawn(context: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        run, step, index = context["key"].split(":")
        place = Place(tables.runs[UUID(run)], int(step), int(index))
        if (refusal := _refusal(tables, place, arguments)) is not None:
            return {"error": refusal}
        return _made(tables, place, arguments)

    return spawn


@dataclass(frozen=True, slots=True)
class Place:
    """The call of a parent that asks for a child."""

    parent: RunRow
    step: int
    index: int

    @property
    def depth(self) -> int:
        """How deep the child stands."""
        own = child_of(self.parent.message)
        return 1 + (own.depth if own else 0)


def _refusal(tables: Tables, place: Place, arguments: Mapping[str, Any]) -> str | None:
    parent = place.parent
    if place.depth > arguments["deepest"]:
        return f"sub-agents are nested {place.depth - 1} deep here, which is the limit"
    beside = [row for row in tables.children.values() if (row.parent, row.step) == (parent.id, place.step)]
    if len(beside) >= arguments["most_a_round"]:
        return f"no more than {len(beside)} sub-agents can be started at once"
    runs = [tables.runs[row.run] for row in tables.children.values() if not row.collected]
    at_work = sum(run.finished_at is None and run.principal == parent.principal for run in runs)
    if at_work >= arguments["most_open"]:
        return f"{at_work} sub-agents are at work for this person already; try again when some have ended"
    return None


def _made(tables: Tables, place: Place, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    parent, now = place.parent, tables.clock.now()
    own = child_of(parent.message)
    root = own.root if own else parent.id
    key = f"{CHILD_CONVERSATIONS}{parent.id}:{place.step}:{place.index}"
    works_in = own.works_in if own else parent.conversation
    child = {"parent": parent.id, "root": root, "depth": place.depth, "works_in": works_in}
    child |= {name: arguments[name] for name in ("model", "tools", "max_turns")}
    seconds = arguments.get("seconds")
    ends = parent.deadline_at if seconds is None else min(parent.deadline_at, now + timedelta(seconds=seconds))
    tables.conversations[key] = ConversationRow(key, "system", parent.principal, "sub-agent", last_ordinal=1)
    run = RunRow(
        id=arguments["id"],
        conversation=key,
        ordinal=1,
        kind="message",
        source="system",
        tier="minimal",
        principal=parent.principal,
        sender=parent.sender,
        message=as_json({"text": arguments["prompt"], "child": child}),
        accepted_at=now,
        deadline_at=ends,
        traceparent=parent.traceparent,
        needs=NEEDS,
    )
    tables.runs[run.id] = run
    tables.children[run.id] = ChildRow(run.id, parent.id, root, place.step, place.index, arguments["most_characters"])
    parent.needs = max(parent.needs, NEEDS)
    return {"open": True, "run": run.id, "wake": [key]}


class InMemoryChildren:
    """``Children`` of the ports."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def collect(self, parent: UUID) -> str | None:
        """See ``Children.collect``."""
        tables = self._tables
        for row in tables.children.values():
            run = tables.runs[row.run]
            if row.parent == parent and not row.collected and run.finished_at is not None:
                _write(tables, row, run)
        waits = tables.runs[parent]
        is_open = any(row.parent == parent and not row.collected for row in tables.children.values())
        if waits.state != "waiting" or waits.wait_reason != "child" or is_open:
            return None
        waits.wake_at = waits.accepted_at
        return waits.conversation

    async def mind(self, *, limit: int) -> Sequence[str]:
        """See ``Children.mind``."""
        tables = self._tables
        for row in list(tables.children.values()):
            run = tables.runs[row.run]
            over = tables.runs[row.parent].finished_at is not None
            if over and run.finished_at is None and run.cancel_asked_at is None:
                cancel(tables, row.run, reason=PARENT_ENDED)
        parents = {row.parent for row in tables.children.values() if not row.collected}
        parents |= {run.id for run in tables.runs.values() if run.wait_reason == "child" and run.wake_at is None}
        woken = [await self.collect(parent) for parent in sorted(parents)[:limit]]
        return [conversation for conversation in woken if conversation is not None]

    async def let_through(self, call: UUID, *, run: UUID, root: UUID, limit: Decimal) -> Purse:
        """See ``Children.let_through``."""
        tables = self._tables
        family = {run, root, *(row.run for row in tables.children.values() if row.root == root)}
        paid = [row for row in tables.costs.values() if row.run in family and not (row.estimated and not row.provider)]
        beside = sum((row.cost for row in paid if row.run != run), Decimal(0))
        spent = sum((row.cost for row in paid), Decimal(0))
        calls = [
            row for row in tables.reservations.values() if row.run in family and row.let_through and not row.settled
        ]
        out = sum((row.worst_case for row in calls if row.call_id != call), Decimal(0))
        return Purse(_leave(tables.reservations.get(call), spent, out, limit), beside)


def _leave(asked: ReservationRow | None, spent: Decimal, out: Decimal, limit: Decimal) -> Leave:
    if spent >= limit:
        return "none"
    if spent + out >= limit and not (asked and asked.let_through):
        return "wait"
    if asked is None or asked.settled:
        return "lost"
    asked.let_through = True
    return "given"


def _write(tables: Tables, row: ChildRow, run: RunRow) -> None:
    effect = tables.effects.get((row.parent, row.step, row.call_index))
    if effect is not None and effect.state == "intended":
        effect.state, effect.result = "done", _result(row, run, effect.call_id)
    row.collected = True
    if (session := tables.open_session(run.conversation)) is not None:
        session.closed = True


def _result(row: ChildRow, run: RunRow, call_id: str) -> dict[str, Any]:
    outcome = run.outcome or {}
    failed = run.state != "done"
    text = (outcome.get("reply") or "").strip(" \n\r\t") or "(no output)"
    if failed:
        text = f"the sub-agent {ENDS.get(run.state, 'failed')}: {outcome.get('error') or 'nobody knows why'}"
    if len(text) > row.most_characters:
        text = f"{text[: row.most_characters]}\n[cut after {row.most_characters} characters]"
    notices = [notice for notice in outcome.get("notices") or () if notice not in text]
    text += "".join(f"\n[system: {notice}]" for notice in notices)
    doubts = [notice for notice in notices if notice.startswith("I was interrupted while using ")]
    took = (run.finished_at or run.accepted_at) - run.accepted_at
    said = {"run": str(run.id), "notices": doubts, "ms": max(0, round(took.total_seconds() * 1000))}
    result: dict[str, Any] = {
        "tool_use_id": call_id,
        "content": f"Error: {text}" if failed else text,
        "said": {"error" if failed else "text": text, **said},
    }
    return {**result, "is_error": True} if failed else result
