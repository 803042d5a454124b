"""A run answers one message. These are the frozen values that travel between accept, claim, store and finish."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from shared.domain.attachment import Attachment, ReadableText, blob_blocks
from shared.domain.chat import BlobBlock, Message
from shared.domain.child_run import ChildRun
from shared.domain.money import Usage
from shared.domain.outgoing_file import OutgoingFile

RunKind = Literal["message", "compact", "reset", "outbound"]
"""``outbound``: a person is told something; no model is asked."""

RunState = Literal["accepted", "running", "waiting", "done", "failed", "cancelled", "merged", "dead"]
OPEN_STATES = frozenset[RunState]({"accepted", "running", "waiting"})
"""Those that are no end."""

TERMINAL_STATES: frozenset[str] = frozenset({"done", "failed", "cancelled", "merged", "dead"})
Stage = Literal["new", "model", "tools"]
Source = Literal["telegram", "http", "cli", "system", "user"]
PEOPLE: frozenset[str] = frozenset({"telegram", "http", "cli", "user"})
"""Sources whose text may answer what a run asks its person; what a machine says answers nothing."""

WhenBusy = Literal["queue", "steer", "interrupt", "reject"]
"""What a message asks for when its conversation is busy: its place in the line; to be taken in between two turns of the
run in hand; to end that run and stand first; to be refused."""

WaitReason = Literal["approval", "retry", "child"]

UNDERSTANDS = 5
"""The version of run this code can work on; a run that ``needs`` more is left to newer workers."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a message belongs: the conversation's key, its channel, who pays, and a label for people."""

    conversation: str
    channel: str
    principal: str
    contact: str


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """The same key within its scope gives the same run; ``body_hash`` tells whether it is the same request."""

    scope: str
    key: str
    body_hash: bytes
    lives: timedelta = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class NewRun:
    """What is asked of accept. ``id`` is made before, so that a lost answer can be asked for again.

    ``readable``: which of the ``attachments`` are read to the model as text.
    """

    id: UUID
    address: Address
    text: str
    kind: RunKind = "message"
    source: Source = "http"
    tier: str = "full"
    sender: str = "default"
    details: Mapping[str, Any] = field(default_factory=dict)
    idempotency: IdempotencyKey | None = None
    deadline: timedelta = timedelta(hours=1)
    capacity: int = 1000
    traceparent: str | None = None
    when_busy: WhenBusy = "queue"
    webhook: str | None = None
    retry_of: UUID | None = None
    attachments: Sequence[Attachment] = ()
    readable: ReadableText = field(default_factory=ReadableText)


def message_document(new: NewRun) -> dict[str, Any]:
    """What a run's row says of its message; attachments stand in it by reference."""
    document: dict[str, Any] = {"text": new.text, **new.details}
    if new.attachments:
        document["attachments"] = blob_blocks(new.id, new.attachments, new.readable)
    return document


@dataclass(frozen=True, slots=True)
class Accepted:
    """The run that is there now; ``created`` is false when an idempotency key found an earlier one.

    ``into``: the run that this message was merged into. ``cancels``: the run in hand that it interrupts.
    """

    run: UUID
    conversation: str
    ordinal: int
    state: RunState
    created: bool
    into: UUID | None = None
    cancels: UUID | None = None


CancelStatus = Literal["unknown", "ended", "asked", "cancelled", "shared"]


@dataclass(frozen=True, slots=True)
class CancelAnswer:
    """What a cancel found: no such run, one that had ended, one that is told to end, one that has ended by it; one that
    is ``shared`` with others and goes on.

    ``run`` is the run that ends: a merged one stands for its leader.
    """

    status: CancelStatus
    run: UUID
    conversation: str = ""


DecideStatus = Literal["unknown", "gone", "decided", "resumed"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What came of an answer to a question: nobody asked, somebody was quicker, taken, taken and the run goes on."""

    status: DecideStatus
    run: UUID | None = None
    conversation: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A run that waits for a person: what it asks, and the approvals to decide, by id and tool."""

    run: UUID
    session: UUID
    text: str
    approvals: Sequence[tuple[UUID, str]]


@dataclass(frozen=True, slots=True)
class Session:
    """The part of a conversation between two resets, as far as a run needs it."""

    id: UUID
    created_at: datetime
    last_ordinal: int
    live_from: int
    summary: str | None
    compaction_count: int
    context_tokens: int
    warned: bool
    compact_above: int = 0


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message with its place in the session and the run that wrote it."""

    ordinal: int
    run: UUID
    body: Message


@dataclass(frozen=True, slots=True)
class StoredEffect:
    """What is known of one call of an interrupted round of tools."""

    call_index: int
    call_id: str
    tool: str
    effect: str
    state: Literal["intended", "done", "in_doubt"]
    proof: Mapping[str, Any] | None
    result: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Spent:
    """What earlier attempts of a run have paid."""

    cost: Decimal = Decimal(0)
    calls: int = 0
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Route:
    """Which model a run goes to, and the most that one call of it may cost."""

    model: str
    worst_case: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class StoredApproval:
    """What a person said about one call of the next round; ``args_hash`` is of what they were asked about."""

    call_index: int
    tool: str
    args_hash: str
    state: Literal["pending", "allowed", "denied", "void"]
    answer: str | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A run in hand, proven by ``epoch``. ``call_id`` is reserved for the next model call (not in stage ``tools``).

    ``messages`` are the session's rows from ordinal ``history_from`` on: all that are live, or those beyond a cache.
    ``attachments`` came with the ``text``.
    """

    run: UUID
    conversation: str
    epoch: int
    ordinal: int
    kind: RunKind
    source: Source
    tier: str
    principal: str
    sender: str
    contact: str
    channel: str
    text: str
    accepted_at: datetime
    time_left: timedelta
    attempts: int
    stage: Stage
    step: int
    keep: str
    cancel_asked: str | None
    session: Session
    route: Route
    call_id: UUID
    history_from: int
    messages: Sequence[StoredMessage]
    effects: Sequence[StoredEffect] = ()
    approvals: Sequence[StoredApproval] = ()
    spent: Spent = field(default_factory=Spent)
    retries: int = 0
    suspected: int = 0
    traceparent: str | None = None
    child: ChildRun | None = None
    attachments: Sequence[BlobBlock] = ()


ClaimRefusal = Literal["nothing", "owned", "fenced", "suspect", "alone"]
"""``suspect``: two processes died with it in hand, and this one has such a run already. ``alone``: three did, and it
is for a process that does nothing else."""


@dataclass(frozen=True, slots=True)
class Later:
    """The newest of several messages in a row is not old enough: more may follow."""

    wait: timedelta


@dataclass(frozen=True, slots=True)
class Settlement:
    """One model call as it was billed: a row of ``costs``. What is embedded for a client belongs to no run."""

    call_id: UUID
    run: UUID | None
    conversation: str | None
    session: UUID | None
    principal: str
    call_type: Literal["agentic", "compaction", "embedding"]
    provider: str
    model: str
    usage: Usage
    rates: tuple[Decimal, Decimal, Decimal, Decimal]
    cost: Decimal
    currency: str
    latency: timedelta = timedelta(0)
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Intent:
    """A tool call about to run; stored before it does."""

    call_index: int
    call_id: str
    tool: str
    effect: str
    args_hash: str
    proof: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EffectResult:
    """What came of an intent."""

    call_index: int
    state: Literal["done", "in_doubt"]
    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money set aside for the next model call, before it is made."""

    call_id: UUID
    route: Route


@dataclass(frozen=True, slots=True)
class SessionAfter:
    """What a finished run leaves in its session's row.

    ``compact_above``: after a compaction that failed, it is not tried again below so many tokens.
    """

    context_tokens: int
    model: str
    warned: bool
    pending_warning: str | None = None
    compact_above: int = 0


@dataclass(frozen=True, slots=True)
class Compaction:
    """The oldest rows said in fewer words; rows from ``live_from`` on stay as they are."""

    summary: str
    live_from: int
    removed_messages: int
    summary_tokens: int
    number: int


@dataclass(frozen=True, slots=True)
class Ending:
    """The one final outcome of a run. ``drop`` takes its rows out of the context (it failed before it did anything).

    ``parts`` are the texts that go out to the channel; ``None`` leaves a failed run to say its reason. ``files`` go out
    behind them.
    """

    state: RunState
    outcome: Mapping[str, Any]
    terminal: str
    session: SessionAfter | None = None
    drop: bool = False
    compact: UUID | None = None
    compaction: Compaction | None = None
    parts: Sequence[str] | None = None
    files: Sequence[OutgoingFile] = ()


@dataclass(frozen=True, slots=True)
class AskedApproval:
    """A call that a person is asked about before it runs."""

    id: UUID
    call_index: int
    tool: str
    args_hash: str
    question: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The run gives up owner and slot until its question is answered, its children have ended, or for ``wake_in``.

    ``retries`` counts what was tried again so far; ``parts`` are the texts that go out to the channel.
    """

    reason: WaitReason
    wake_in: timedelta | None = None
    retries: int = 0
    approvals: Sequence[AskedApproval] = ()
    parts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """What was told in a step, so that its events can be had again when Redis has lost them.

    ``events`` are (sequence, type, data) in their order, the sequence being the second part of an event's id.
    Neighbouring pieces of text are one, under the sequence of the last.
    """

    step: int
    events: Sequence[tuple[int, str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Write:
    """What one transaction of an attempt stores; ``id`` makes it safe to send twice.

    ``absorb`` takes in steering messages. ``unbegun``: of the round of calls that stands next none was begun, so what
    was intended is as if it never was.
    """

    id: UUID
    run: UUID
    messages: Sequence[Message] = ()
    settle: Settlement | None = None
    intents: Sequence[Intent] = ()
    results: Sequence[EffectResult] = ()
    reserve: Reservation | None = None
    step: int | None = None
    stage: Stage | None = None
    keep: str | None = None
    told: Told | None = None
    absorb: bool = False
    unbegun: bool = False
    waiting: Waiting | None = None
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """What a write has done. ``more``: this worker still owns the conversation, and more waits in it.

    ``absorbed`` are steering messages that now stand after the step; ``outcome`` is set when what was stored says more
    than what was given (an act that stayed in doubt); ``followers`` are the runs that ended with this one.
    """

    more: bool
    absorbed: Sequence[Message] = ()
    outcome: Mapping[str, Any] | None = None
    followers: Sequence[UUID] = ()
