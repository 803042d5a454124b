"""What Postgres would hold, as far as the transactions need it. Shared by the fakes of one test."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

from shared.adapters.inmemory.rows import (
    ApprovalRow,
    BlobRow,
    ChildRow,
    ConversationRow,
    DeliveryMade,
    EffectRow,
    KeyRow,
    MessageRow,
    ReservationRow,
    RunRow,
    SessionRow,
    WebhookMade,
    WorkerRow,
)
from shared.adapters.postgres.documents import to_json
from shared.domain.chat import Message
from shared.domain.money import Usage
from shared.domain.run import OPEN_STATES, Reservation, Settlement
from shared.messages.run_events import terminal_id
from shared.ports.clock import Clock
from shared.ports.runs import FinishedRun

LIVING = frozenset({"alive", "draining"})


def as_json(value: Any) -> Any:
    """A copy as it comes back from ``jsonb``: nothing that the caller changes later reaches the store."""
    return orjson.loads(to_json(value))


def as_finished(run: RunRow) -> FinishedRun:
    """An ended run as it is published."""
    outcome: dict[str, Any] = run.outcome or {}
    return FinishedRun(run.id, run.conversation, run.terminal or terminal_id(run.epoch), as_json(outcome))


@dataclass(slots=True)
class Tables:
    """All rows. A method of a fake never waits between reading and writing, so each is a transaction."""

    clock: Clock
    workers: dict[UUID, WorkerRow] = field(default_factory=dict)
    conversations: dict[str, ConversationRow] = field(default_factory=dict)
    sessions: dict[UUID, SessionRow] = field(default_factory=dict)
    runs: dict[UUID, RunRow] = field(default_factory=dict)
    idempotency: dict[tuple[str, str], KeyRow] = field(default_factory=dict)
    messages: list[MessageRow] = field(default_factory=list)
    effects: dict[tuple[UUID, int, int], EffectRow] = field(default_factory=dict)
    reservations: dict[UUID, ReservationRow] = field(default_factory=dict)
    costs: dict[UUID, Settlement] = field(default_factory=dict)
    run_steps: dict[tuple[UUID, int, int], list[Any]] = field(default_factory=dict)
    """By run, step and epoch."""
    approvals: dict[UUID, ApprovalRow] = field(default_factory=dict)
    refilled_at: datetime | None = None
    deliveries: list[DeliveryMade] = field(default_factory=list)
    webhooks: list[WebhookMade] = field(default_factory=list)
    blobs: dict[UUID, BlobRow] = field(default_factory=dict)
    children: dict[UUID, ChildRow] = field(default_factory=dict)
    reply_files: dict[UUID, list[dict[str, Any]]] = field(default_factory=dict)
    """By run, in the order in which they were sent."""
    told_people: dict[UUID, list[str]] = field(default_factory=dict)
    """By run: the conversations that its messages went to."""

    def line(self, conversation: str) -> list[RunRow]:
        """The open runs of a conversation: what was begun, then what interrupts, then the oldest."""
        found = [row for row in self.runs.values() if row.conversation == conversation and row.state in OPEN_STATES]
        return sorted(found, key=lambda row: (row.state == "accepted", not row.urgent, row.ordinal))

    def lives(self, worker: UUID | None) -> bool:
        """Whether this is a worker that may still write."""
        row = self.workers.get(worker) if worker else None
        return row is not None and row.state in LIVING

    def pending(self, run: UUID) -> list[ApprovalRow]:
        """What a run has asked and nobody has decided."""
        asked = [row for row in self.approvals.values() if row.run == run and row.state == "pending"]
        return sorted(asked, key=lambda row: row.call_index)

    def reserve(self, reservation: Reservation, worker: UUID, run: UUID) -> None:
        """Set money aside for a call."""
        route = reservation.route
        row = ReservationRow(reservation.call_id, worker, run, route.model, route.worst_case, route.currency)
        self.reservations.setdefault(reservation.call_id, row)

    def open_session(self, conversation: str) -> SessionRow | None:
        """The session that is not closed."""
        return next(
            (row for row in self.sessions.values() if row.conversation == conversation and not row.closed), None
        )

    def last_used(self, session: SessionRow) -> datetime:
        """When its last run has ended, or when it was opened."""
        ends = [row.finished_at for row in self.runs.values() if row.session == session.id and row.finished_at]
        return max([session.created_at, *ends])

    def append(self, session: UUID, run: UUID, body: Message) -> None:
        """Add a row at the end of a session."""
        row = self.sessions[session]
        row.last_ordinal += 1
        self.messages.append(MessageRow(session, row.last_ordinal, run, as_json(body)))

    def drop(self, run: UUID) -> None:
        """Take a run's rows out of the context."""
        for row in self.messages:
            if row.run == run:
                row.dropped = True

    def settle(self, settlement: Settlement) -> None:
        """Book a call once; one that was neither reserved nor made leaves nothing."""
        if settlement.call_id not in self.reservations and not settlement.cost and settlement.usage == Usage():
            return
        self.costs.setdefault(settlement.call_id, settlement)
        if reservation := self.reservations.get(settlement.call_id):
            reservation.settled = True

    def settle_unknown(self, reservation: ReservationRow) -> None:
        """Book the worst case of a call of which nobody can say any more what it cost."""
        run = self.runs[reservation.run]
        nothing = Decimal(0)
        self.settle(
            Settlement(
                call_id=reservation.call_id,
                run=run.id,
                conversation=run.conversation,
                session=run.session or run.id,
                principal=run.principal,
                call_type="agentic",
                provider="",
                model=reservation.model,
                usage=Usage(),
                rates=(nothing, nothing, nothing, nothing),
                cost=reservation.worst_case,
                currency=reservation.currency,
                latency=timedelta(0),
                estimated=True,
            )
        )
