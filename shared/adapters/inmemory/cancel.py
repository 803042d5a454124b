"""Runs that somebody asks to end."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from shared.adapters.inmemory.conclude import end_from_outside
from shared.adapters.inmemory.tables import Tables
from shared.domain.run import OPEN_STATES, CancelAnswer

WAS_CANCELLED = "It was cancelled."


def cancel(tables: Tables, run: UUID, *, reason: str, force: bool = False) -> CancelAnswer:
    """See ``Inbox.cancel``; ``force`` does not wait for the worker that has it in hand."""
    row = tables.runs.get(run)
    if row is None:
        return CancelAnswer("unknown", run)
    if row.merged_into is not None:
        row = tables.runs[row.merged_into]
    conversation = tables.conversations[row.conversation]
    if row.state not in OPEN_STATES:
        return CancelAnswer("ended", row.id, row.conversation)
    held = row.state == "running" and conversation.epoch == row.epoch and tables.lives(conversation.owner)
    if held and not force:
        row.cancel_asked_at = row.cancel_asked_at or tables.clock.now()
        row.cancel_reason = row.cancel_reason or reason
        return CancelAnswer("asked", row.id, row.conversation)
    if row.state == "running":
        conversation.owner = None
        conversation.epoch += 1
    end_from_outside(tables, row, "cancelled", row.cancel_reason or reason)
    return CancelAnswer("cancelled", row.id, row.conversation)


def hang_up(tables: Tables, run: UUID, *, reason: str) -> CancelAnswer:
    """See ``Inbox.hang_up``."""
    row = tables.runs.get(run)
    if row is not None and (
        row.merged_into is not None or any(each.merged_into == run for each in tables.runs.values())
    ):
        return CancelAnswer("shared", run, row.conversation)
    return cancel(tables, run, reason=reason)


def cancels(tables: Tables, epochs: Mapping[str, int]) -> Mapping[str, str]:
    """See ``Runs.cancels``."""
    return {
        row.conversation: row.cancel_reason or ""
        for row in tables.runs.values()
        if row.state == "running" and row.cancel_asked_at is not None and epochs.get(row.conversation) == row.epoch
    }


def cancel_overdue(tables: Tables, *, older_than: timedelta, limit: int) -> Sequence[tuple[UUID, str]]:
    """See ``Runs.cancel_overdue``."""
    before = tables.clock.now() - older_than
    due = [
        row
        for row in tables.runs.values()
        if row.state == "running" and row.cancel_asked_at is not None and row.cancel_asked_at < before
    ]
    due = sorted(due, key=lambda row: row.conversation)[:limit]
    for row in due:
        cancel(tables, row.id, reason=WAS_CANCELLED, force=True)
    return [(row.id, row.conversation) for row in due]
