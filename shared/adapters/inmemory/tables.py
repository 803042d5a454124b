"""What Postgres would hold, as far as the four transactions need it. Shared by the fakes of one test."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

from shared.adapters.postgres.documents import to_json
from shared.domain.chat import Message
from shared.domain.money import Usage
from shared.domain.run import RunKind, RunState, Settlement, Source, Stage
from shared.messages.run_events import ACCEPTED_ID
from shared.ports.clock import Clock
from shared.ports.fleet import Identity

OPEN_STATES = frozenset({"accepted", "running", "waiting"})
LIVING = frozenset({"alive", "draining"})


def as_json(value: Any) -> Any:
    """A copy as it comes back from ``jsonb``: nothing that the caller changes later reaches the store."""
    return orjson.loads(to_json(value))


@dataclass(slots=True)
class WorkerRow:
    """A row of ``workers``."""

    identity: Identity
    state: str = "alive"
    beat: int = 0


@dataclass(slots=True)
class ConversationRow:
    """A row of ``conversations``."""

    key: str
    channel: str
    principal: str
    contact: str
    last_ordinal: int = 0
    owner: UUID | None = None
    epoch: int = 0


@dataclass(slots=True)
class SessionRow:
    """A row of ``sessions``."""

    id: UUID
    conversation: str
    created_at: datetime
    last_ordinal: int = 0
    live_from: int = 1
    summary: str | None = None
    compaction_count: int = 0
    context_tokens: int = 0
    warned: bool = False
    compact_above: int = 0
    pending_warning: str | None = None
    closed: bool = False


@dataclass(slots=True)
class RunRow:
    """A row of ``runs``."""

    id: UUID
    conversation: str
    ordinal: int
    kind: RunKind
    source: Source
    tier: str
    principal: str
    sender: str
    message: dict[str, Any]
    accepted_at: datetime
    deadline_at: datetime
    traceparent: str | None = None
    state: RunState = "accepted"
    session: UUID | None = None
    epoch: int = 0
    attempts: int = 0
    stage: Stage = "new"
    step: int = 0
    keep: str = ACCEPTED_ID
    last_write: UUID | None = None
    outcome: dict[str, Any] | None = None
    terminal: str | None = None
    finished_at: datetime | None = None
    published: bool = False


@dataclass(slots=True)
class MessageRow:
    """A row of ``messages``."""

    session: UUID
    ordinal: int
    run: UUID
    body: Message
    dropped: bool = False


@dataclass(slots=True)
class EffectRow:
    """A row of ``effects``."""

    run: UUID
    step: int
    call_index: int
    call_id: str
    tool: str
    effect: str
    proof: dict[str, Any] | None
    state: str = "intended"
    result: dict[str, Any] | None = None


@dataclass(slots=True)
class ReservationRow:
    """A row of ``reservations``."""

    call_id: UUID
    worker: UUID
    run: UUID
    model: str
    worst_case: Decimal
    currency: str
    settled: bool = False


@dataclass(slots=True)
class KeyRow:
    """A row of ``idempotency``."""

    body_hash: bytes
    run: UUID
    expires_at: datetime


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

    def line(self, conversation: str) -> list[RunRow]:
        """The open runs of a conversation in their order."""
        found = [row for row in self.runs.values() if row.conversation == conversation and row.state in OPEN_STATES]
        return sorted(found, key=lambda row: row.ordinal)

    def open_session(self, conversation: str) -> SessionRow | None:
        """The session that is not closed."""
        return next(
            (row for row in self.sessions.values() if row.conversation == conversation and not row.closed), None
        )

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
        """Book a call once."""
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
