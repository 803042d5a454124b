"""What was read once all was quiet: tables, streams, requests to the model, answers, acts counted outside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.chaos.boundaries import Note


@dataclass(frozen=True, slots=True)
class RunRow:
    """A row of ``runs``; ``key`` is the ask that it answers, times are Unix seconds."""

    id: str
    conversation: str
    ordinal: int
    kind: str
    state: str
    epoch: int
    attempts: int
    terminal: str | None
    outcome: Mapping[str, Any] | None
    published: bool
    accepted_at: float
    key: str
    finished_at: float | None = None
    published_at: float | None = None

    @property
    def reply(self) -> str:
        """What its person was answered."""
        return str((self.outcome or {}).get("reply", ""))


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A row of ``messages``: ``calls`` of an assistant, ``results`` of tools, both by the model's ids."""

    session: str
    ordinal: int
    run: str
    role: str
    dropped: bool = False
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class EffectRow:
    """A row of ``effects``; ``succeeded`` is what its result says."""

    run: str
    tool: str
    state: str
    succeeded: bool


@dataclass(frozen=True, slots=True)
class ReservationRow:
    """A row of ``reservations``."""

    call: str
    worker: str
    run: str
    conversation: str
    epoch: int
    worst_case: Decimal
    settled: bool


@dataclass(frozen=True, slots=True)
class CostRow:
    """A row of ``costs``; ``rates`` are per million tokens, in the order of the tokens."""

    call: str
    tokens: tuple[int, int, int, int]
    rates: tuple[Decimal, Decimal, Decimal, Decimal]
    cost: Decimal
    estimated: bool

    def price_of(self, tokens: Sequence[int]) -> Decimal:
        """What so many tokens cost at these rates."""
        return sum((count * rate for count, rate in zip(tokens, self.rates, strict=True)), Decimal(0)) / 1_000_000


@dataclass(frozen=True, slots=True)
class Told:
    """An event of a run's stream."""

    id: str
    type: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Follower:
    """What one client was told of a run, put together over all its connections; times are Unix seconds."""

    run: str
    events: tuple[Told, ...]
    began: float
    ended: float
    connections: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client got for its ask; ``run`` is empty and ``fault`` says why when it never got anything."""

    key: str
    run: str = ""
    reply: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Act:
    """One time that a key was acted out, by the machine's monotonic clock; ``ended`` is ``None`` when it was cut."""

    key: str
    began: float
    ended: float | None


@dataclass(frozen=True, slots=True)
class Blocked:
    """A worker whose event loop (``sleep``) or whose every thread (``gil``) stood still; monotonic times."""

    pid: int
    began: float
    ended: float
    how: str


@dataclass(frozen=True, slots=True)
class Fenced:
    """A worker that was counted as dead, and when, by the monotonic clock."""

    pid: int
    at: float


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A fault, from when to when it lasted, by the monotonic clock. ``pid`` is whom it came to, 0 for all."""

    fault: str
    began: float
    ended: float
    pid: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """Everything the checker may look at.

    ``wipes``: from when to when Redis was empty or away, in Unix seconds. ``epochs``: what a watcher saw of each
    conversation, in time order. ``calls``: how often the provider was asked with a call id. ``billed``: tokens of the
    answers that the provider began to give in full, ``spoiled``: calls that it was told to spoil. ``acts``: what was
    acted out, counted outside. ``stamps``: under which keys a tool that may be repeated has run, for each ask.
    ``webhooks``: run and state of each, ``posted``: how often the end of each run came to the receiver.
    ``unwoken``: runs of which a gateway says that it had no time to announce them.
    ``inbound``: entries of ``lucyd:inbound`` that nobody will ever be given. ``last_ordinals``: of each conversation.
    ``crashes``: log lines and exit codes that no fault explains. ``notes`` are those of the workers, ``deaths`` tells
    when processes ended, ``mono`` is what has to be added to Unix seconds to get the monotonic clock.
    """

    runs: tuple[RunRow, ...] = ()
    messages: tuple[MessageRow, ...] = ()
    effects: tuple[EffectRow, ...] = ()
    reservations: tuple[ReservationRow, ...] = ()
    costs: tuple[CostRow, ...] = ()
    owned: tuple[str, ...] = ()
    epochs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    streams: Mapping[str, tuple[Told, ...]] = field(default_factory=dict)
    followers: tuple[Follower, ...] = ()
    answers: tuple[Answer, ...] = ()
    calls: Mapping[str, int] = field(default_factory=dict)
    billed: Mapping[str, tuple[int, int, int, int]] = field(default_factory=dict)
    spoiled: frozenset[str] = frozenset()
    acts: tuple[Act, ...] = ()
    stamps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inbound: tuple[str, ...] = ()
    unwoken: frozenset[str] = frozenset()
    webhooks: tuple[tuple[str, str], ...] = ()
    posted: Mapping[str, int] = field(default_factory=dict)
    last_ordinals: Mapping[str, int] = field(default_factory=dict)
    wipes: tuple[tuple[float, float], ...] = ()
    crashes: tuple[str, ...] = ()
    fenced: tuple[Fenced, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    disturbances: tuple[Disturbance, ...] = ()
    notes: tuple[Note, ...] = ()
    deaths: Mapping[int, float] = field(default_factory=dict)
    mono: float = 0.0

    def disturbed_between(self, began: float, ended: float, pid: int = 0) -> bool:
        """Tell whether a fault that holds things up fell into this time: one that came to all, or to this process."""
        return any(
            each.began <= ended and each.ended >= began and (each.pid in (0, pid) or pid == 0)
            for each in self.disturbances
        )

    def wiped_between(self, began: float, ended: float) -> bool:
        """Tell whether Redis lost something in this time, a second of doubt on both sides."""
        return any(start <= ended + 1 and end >= began - 1 for start, end in self.wipes)
