"""What a waiting run asked is decided, once."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from shared.adapters.inmemory.tables import Tables
from shared.domain.run import Decision, Question

LONG_AGO = datetime.min.replace(tzinfo=UTC)


def answer(tables: Tables, run: UUID, approval: UUID | None, *, allows: bool, text: str, by: str) -> bool:
    """Decide one question of a waiting run, or all; it goes on when nothing is left. False: nothing was asked."""
    row = tables.runs[run]
    asked = [one for one in tables.pending(run) if approval in {None, one.id}]
    if row.state != "waiting" or not asked:
        return False
    for one in asked:
        one.state = "allowed" if allows else "denied"
        one.answer, one.decided_by = text, by
    if not tables.pending(run):
        row.wake_at = LONG_AGO
    return True


def decide(tables: Tables, approval: UUID, *, allows: bool, text: str, by: str) -> Decision:
    """See ``Inbox.decide``."""
    asked = tables.approvals.get(approval)
    if asked is None:
        return Decision("unknown")
    conversation = tables.runs[asked.run].conversation
    if not answer(tables, asked.run, approval, allows=allows, text=text, by=by):
        return Decision("gone", asked.run, conversation)
    return Decision("decided" if tables.pending(asked.run) else "resumed", asked.run, conversation)


def questions(tables: Tables, runs: Sequence[UUID]) -> Sequence[Question]:
    """See ``Inbox.questions``."""
    found = []
    for id in runs:
        row = tables.runs.get(id)
        leader = tables.runs[row.merged_into] if row is not None and row.merged_into else row
        if leader is None or leader.state != "waiting" or leader.session is None:
            continue
        if asked := tables.pending(leader.id):
            text = "\n".join(one.question for one in asked)
            found.append(Question(id, leader.session, text, tuple((one.id, one.tool) for one in asked)))
    return found
