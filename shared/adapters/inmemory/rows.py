"""The rows of the tables that the fakes of one test share."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from shared.domain.chat import Message
from shared.domain.run import RunKind, RunState, Source, Stage, WaitReason, WhenBusy
from shared.messages.run_events import ACCEPTED_ID
from shared.ports.fleet import Identity


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
    when_busy: WhenBusy = "queue"
    needs: int = 1
    urgent: bool = False
    webhook: str | None = None
    retry_of: UUID | None = None
    state: RunState = "accepted"
    session: UUID | None = None
    epoch: int = 0
    attempts: int = 0
    suspected: int = 0
    suspected_by: UUID | None = None
    retries: int = 0
    stage: Stage = "new"
    step: int = 0
    keep: str = ACCEPTED_ID
    last_write: UUID | None = None
    wait_reason: WaitReason | None = None
    waiting_since: datetime | None = None
    wake_at: datetime | None = None
    merged_into: UUID | None = None
    cancel_asked_at: datetime | None = None
    cancel_reason: str | None = None
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
    state: Literal["intended", "done", "in_doubt"] = "intended"
    result: dict[str, Any] | None = None


@dataclass(slots=True)
class ChildRow:
    """A row of ``children``."""

    run: UUID
    parent: UUID
    root: UUID
    step: int
    call_index: int
    most_characters: int
    collected: bool = False


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
    let_through: bool = False


@dataclass(slots=True)
class BlobRow:
    """A row of ``blobs``."""

    id: UUID
    run: UUID
    data: bytes


@dataclass(slots=True)
class KeyRow:
    """A row of ``idempotency``."""

    body_hash: bytes
    run: UUID
    expires_at: datetime


@dataclass(slots=True)
class ApprovalRow:
    """A row of ``approvals``."""

    id: UUID
    run: UUID
    step: int
    call_index: int
    tool: str
    args_hash: str
    question: str
    state: Literal["pending", "allowed", "denied", "void"] = "pending"
    answer: str | None = None
    decided_by: str | None = None


@dataclass(frozen=True, slots=True)
class DeliveryMade:
    """A row of ``deliveries`` as a transaction of its run made it, or one of another run, beside that."""

    run: UUID | None
    conversation: str
    channel: str
    ordinal: int
    part: int
    kind: Literal["reply", "question", "reaction"]
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WebhookMade:
    """A row of ``webhooks`` as the transaction made it that ended its run."""

    run: UUID
    target: str
    body: Mapping[str, Any]
