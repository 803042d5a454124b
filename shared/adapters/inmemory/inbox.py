"""The inbox, without a Postgres: the same promises over dictionaries."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from shared.adapters.inmemory.accept import accept, is_answer
from shared.adapters.inmemory.answer import decide, questions
from shared.adapters.inmemory.cancel import cancel, hang_up
from shared.adapters.inmemory.conclude import end_from_outside
from shared.adapters.inmemory.rows import RunRow
from shared.adapters.inmemory.tables import Tables, as_finished
from shared.domain.run import OPEN_STATES, Accepted, CancelAnswer, Decision, NewRun, Question
from shared.ports.runs import FinishedRun, Reset

RESET_HERE = "The session was reset."


class InMemoryInbox:
    """``Inbox`` of the ports. All that are given the same tables are one store."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def accept(self, new: NewRun) -> Accepted:
        """See ``Inbox.accept``."""
        await asyncio.sleep(0)  # others have a turn before this transaction, never inside it
        return accept(self._tables, new)

    async def open_runs(self) -> Mapping[str, int]:
        """See ``Inbox.open_runs``."""
        return Counter(run.principal for run in self._tables.runs.values() if run.state in OPEN_STATES)

    async def adds_nothing(self, new: NewRun) -> bool:
        """See ``Inbox.adds_nothing``."""
        tables, key = self._tables, new.idempotency
        known = tables.idempotency.get((key.scope, key.key)) if key is not None else None
        if known is not None and known.expires_at >= tables.clock.now():
            return True
        line = tables.line(new.address.conversation)
        return bool(line) and is_answer(tables, line[0], new)

    async def cancel(self, run: UUID, *, reason: str) -> CancelAnswer:
        """See ``Inbox.cancel``."""
        await asyncio.sleep(0)  # as above, here and below
        return cancel(self._tables, run, reason=reason)

    async def hang_up(self, run: UUID, *, reason: str) -> CancelAnswer:
        """See ``Inbox.hang_up``."""
        await asyncio.sleep(0)
        return hang_up(self._tables, run, reason=reason)

    async def decide(self, approval: UUID, *, allows: bool, answer: str, by: str) -> Decision:
        """See ``Inbox.decide``."""
        await asyncio.sleep(0)
        return decide(self._tables, approval, allows=allows, text=answer, by=by)

    async def questions(self, runs: Sequence[UUID]) -> Sequence[Question]:
        """See ``Inbox.questions``."""
        return questions(self._tables, runs)

    async def outcomes(self, runs: Sequence[UUID]) -> Sequence[FinishedRun]:
        """See ``Inbox.outcomes``."""
        found = [self._tables.runs[run] for run in runs if run in self._tables.runs]
        return [as_finished(row) for row in found if row.finished_at is not None]

    async def reset(
        self, conversation: str, run: UUID, *, source: str, sender: str, rested: timedelta | None = None
    ) -> Reset | None:
        """See ``Inbox.reset``."""
        await asyncio.sleep(0)
        tables, now = self._tables, self._tables.clock.now()
        if (before := tables.runs.get(run)) is not None and before.session is not None:
            return Reset(before.session, ())
        row = tables.conversations.get(conversation)
        session = tables.open_session(conversation)
        if row is None or session is None:
            return None
        if rested is not None and (tables.line(conversation) or now - tables.last_used(session) < rested):
            return None
        session.closed = True
        row.owner = None
        row.epoch += 1
        row.last_ordinal += 1
        cancelled = [begun for begun in tables.line(conversation) if begun.state in {"running", "waiting"}]
        for cut in cancelled:
            end_from_outside(tables, cut, "cancelled", RESET_HERE)
        tables.runs[run] = RunRow(
            id=run,
            conversation=conversation,
            ordinal=row.last_ordinal,
            kind="reset",
            source="system",
            tier="full",
            principal=row.principal,
            sender=sender,
            message={"source": source},
            accepted_at=now,
            deadline_at=now,
            state="done",
            session=session.id,
            outcome={},
            finished_at=now,
            published=True,
        )
        return Reset(session.id, tuple(cut.id for cut in cancelled))
