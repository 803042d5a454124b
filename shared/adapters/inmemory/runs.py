"""Runs, without a Postgres: the same promises over dictionaries."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from shared.adapters.inmemory.cancel import cancel_overdue, cancels
from shared.adapters.inmemory.claim import Asked, claim
from shared.adapters.inmemory.conclude import end_from_outside
from shared.adapters.inmemory.rows import RunRow
from shared.adapters.inmemory.store import hand_back, store
from shared.adapters.inmemory.tables import Tables, as_finished
from shared.domain.run import (
    OPEN_STATES,
    UNDERSTANDS,
    Claim,
    ClaimRefusal,
    Later,
    Route,
    Settlement,
    Stored,
    Write,
)
from shared.ports.runs import Cached, FinishedRun

DEADLINE_PASSED = "This took longer than it may, and was stopped."


class InMemoryRuns:
    """``Runs`` of the ports. All that are given the same tables are one store."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def claim(
        self,
        conversation: str,
        *,
        worker: UUID,
        call_id: UUID,
        routes: Mapping[str, Route],
        cached: Cached | None,
        suspect: bool = True,
        alone: bool = False,
        debounce: timedelta = timedelta(0),
    ) -> Claim | ClaimRefusal | Later:
        """See ``Runs.claim``."""
        await asyncio.sleep(0)
        return claim(self._tables, conversation, Asked(worker, call_id, routes, cached, suspect, alone, debounce))

    async def store(self, conversation: str, *, worker: UUID, epoch: int, write: Write) -> Stored:
        """See ``Runs.store``."""
        await asyncio.sleep(0)
        return store(self._tables, conversation, worker=worker, epoch=epoch, write=write)

    async def settle(self, settlement: Settlement) -> None:
        """See ``Runs.settle``."""
        self._tables.settle(settlement)

    async def hand_back(self, conversation: str, *, worker: UUID, epoch: int, unbegun: bool = False) -> bool:
        """See ``Runs.hand_back``."""
        await asyncio.sleep(0)
        return hand_back(self._tables, conversation, worker=worker, epoch=epoch, unbegun=unbegun)

    async def orphans(
        self,
        *,
        older_than: timedelta,
        limit: int,
        worker: UUID | None = None,
        in_hand: Sequence[str] = (),
        full: Sequence[str] = (),
    ) -> Sequence[str]:
        """See ``Runs.orphans``."""
        before = self._tables.clock.now() - older_than
        oldest: dict[str, RunRow] = {}
        for run in sorted(self._tables.runs.values(), key=lambda run: run.accepted_at):
            if not self._is_ready(run) or run.needs > UNDERSTANDS or run.accepted_at >= before:
                continue
            if run.principal in full:
                continue
            owner = self._tables.conversations[run.conversation].owner
            forgotten = owner is not None and owner == worker and run.conversation not in in_hand
            if owner is None or forgotten or not self._tables.lives(owner):
                oldest.setdefault(run.conversation, run)
        return list(oldest)[:limit]

    async def principals(self, conversations: Sequence[str]) -> Mapping[str, str]:
        """See ``Runs.principals``."""
        held = self._tables.conversations
        return {key: held[key].principal for key in conversations if key in held}

    async def overtaken(self, epochs: Mapping[str, int], *, worker: UUID) -> Sequence[str]:
        """See ``Runs.overtaken``."""
        held = {key: self._tables.conversations[key] for key in epochs if key in self._tables.conversations}
        return [key for key, row in held.items() if row.epoch > epochs[key] and row.owner != worker]

    async def cancels(self, epochs: Mapping[str, int]) -> Mapping[str, str]:
        """See ``Runs.cancels``."""
        return cancels(self._tables, epochs)

    async def cancel_overdue(self, *, older_than: timedelta, limit: int) -> Sequence[tuple[UUID, str]]:
        """See ``Runs.cancel_overdue``."""
        await asyncio.sleep(0)
        return cancel_overdue(self._tables, older_than=older_than, limit=limit)

    async def unpublished(self, *, older_than: timedelta, limit: int) -> Sequence[FinishedRun]:
        """See ``Runs.unpublished``."""
        before = self._tables.clock.now() - older_than
        due = [
            (run.finished_at, run)
            for run in self._tables.runs.values()
            if run.finished_at is not None and run.finished_at < before and not run.published
        ]
        return [as_finished(run) for _, run in sorted(due, key=lambda pair: pair[0])][:limit]

    async def published(self, runs: Sequence[UUID], *, told_within: timedelta) -> None:
        """See ``Runs.published``."""
        tables = self._tables
        if tables.refilled_at is not None and tables.refilled_at >= tables.clock.now() - told_within:
            return
        for run in runs:
            tables.runs[run].published = True

    async def tell_again(self, *, ended_within: timedelta) -> int:
        """See ``Runs.tell_again``."""
        since = self._tables.clock.now() - ended_within
        self._tables.refilled_at = self._tables.clock.now()
        again = [
            run
            for run in self._tables.runs.values()
            if run.published and run.kind != "reset" and run.finished_at is not None and run.finished_at > since
        ]
        for run in again:
            run.published = False
        return len(again)

    async def expire(self, *, limit: int) -> Sequence[UUID]:
        """See ``Runs.expire``."""
        now = self._tables.clock.now()
        due = [run for run in self._tables.runs.values() if run.deadline_at < now]
        due = [
            run
            for run in due
            if run.state in {"accepted", "running"} or (run.state == "waiting" and run.wait_reason == "retry")
        ]
        ended = sorted(due, key=lambda run: run.deadline_at)[:limit]
        for run in ended:
            row = self._tables.conversations[run.conversation]
            if run.state == "running" and row.epoch == run.epoch:
                row.owner = None
                row.epoch += 1
            end_from_outside(self._tables, run, "failed", DEADLINE_PASSED)
        return [run.id for run in ended]

    def _is_ready(self, run: RunRow) -> bool:
        """Whether a claim could find it, or what it stands behind."""
        if run.state not in OPEN_STATES:
            return False
        head, now = self._tables.line(run.conversation)[0], self._tables.clock.now()
        asleep = head.state == "waiting" and (head.wake_at is None or head.wake_at > now)
        return not asleep and (run.state != "waiting" or (run.wake_at is not None and run.wake_at < now))
