"""What was given up, and what an operator does about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol
from uuid import UUID

from shared.domain.run import Address, RunKind, Source

DeadKind = Literal["run", "delivery", "webhook"]


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose things may be seen: those of ``principal``, and with ``keyless`` also what belongs to no API key (messages
    of channels, of schedules). ``principal`` ``None``: everybody's."""

    principal: str | None
    keyless: bool = False

    def covers(self, principal: str) -> bool:
        """Whether something of this principal may be seen."""
        return self.principal in (None, principal) or (self.keyless and not principal.startswith("key:"))


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One thing that was given up. ``worker`` had it last; ``step`` is where a run stood; ``about`` is a run's kind, a
    delivery's channel or a webhook's target.

    ``state``: ``dead``, ``failed``, ``in_doubt``; or ``dropped``, or ``retried`` as the run ``retried_as``.
    """

    id: UUID
    kind: DeadKind
    open: bool
    state: str
    reason: str
    conversation: str
    principal: str
    run: UUID | None
    at: datetime
    attempts: int
    worker: UUID | None
    step: int | None
    about: str
    retried_as: UUID | None


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """What a dead run was asked, as accept takes it. ``details`` are what came with the text."""

    kind: RunKind
    address: Address
    text: str = field(repr=False)
    source: Source
    tier: str
    sender: str
    details: Mapping[str, Any] = field(repr=False)
    webhook: str | None


class DeadLetters(Protocol):
    """All raise ``TryLater``. Asking twice changes nothing more."""

    async def open(self, scope: Scope, *, limit: int = 200) -> Sequence[DeadLetter]:
        """Those about which nobody has decided, the newest first."""
        ...

    async def find(self, id: UUID, scope: Scope) -> DeadLetter | None:
        """One that was given up, decided or not; ``None``: there is none, or it is somebody else's."""
        ...

    async def message(self, run: UUID) -> DeadMessage | None:
        """What a dead run was asked."""
        ...

    async def revive(self, kind: DeadKind, id: UUID) -> bool:
        """Have a delivery or a webhook go out once more, now. False: it was not given up, or is no such thing."""
        ...

    async def drop(self, kind: DeadKind, id: UUID) -> bool:
        """Nothing more shall come of it. False: it was not given up, or somebody has decided before."""
        ...
