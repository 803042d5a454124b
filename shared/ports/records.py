"""What is looked up for people row by row: runs, calls that were paid, sessions by what they are like, known files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from shared.domain.api_key import OPERATOR, ApiKey
from shared.domain.money import Usage
from shared.domain.run import Address, RunState
from shared.ports.history import ModelCost, StoredRun


@dataclass(frozen=True, slots=True)
class Whose:
    """``principal`` ``None``: everybody's; with ``keyless`` also what belongs to no API key. Lists of runs are never
    everybody's: there ``None`` is nobody's."""

    principal: str | None
    keyless: bool = False

    @classmethod
    def within_reach(cls, principal: str) -> "Whose":
        """Where words may go that are sent for this principal: a named key stays with what is its own; all others, the
        operator first, also reach what belongs to no key, as people of Telegram do."""
        named = principal.startswith("key:") and principal != ApiKey(OPERATOR).principal
        return cls(principal, keyless=not named)


@dataclass(frozen=True, slots=True)
class OpenSession:
    """An open session and where it stands."""

    id: UUID
    address: Address


@dataclass(frozen=True, slots=True)
class Bill:
    """A month: by model, and its newest ``calls``, as they stand in ``costs``."""

    models: Sequence[ModelCost]
    calls: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class KnownFiles:
    """How many files of the workspace are known, in how many pieces, and when one was last read anew."""

    count: int
    read_at: datetime | None
    chunks: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """A call of the model that is paid. ``tools`` are those that it asked for; ``None``: its answer was lost."""

    took_ms: int | None
    usage: Usage
    tools: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class Turns:
    """A run's turns in their order, and the trace that it belongs to."""

    traceparent: str | None
    turns: Sequence[Turn]


class Records(Protocol):
    """Reads; nothing here changes anything. All raise ``TryLater``."""

    async def runs(
        self, whose: Whose, *, session: UUID | None, state: RunState | None, limit: int
    ) -> Sequence[StoredRun]:
        """Runs of one API key, and with ``keyless`` of what came over none, the newest first; never more than 200."""
        ...

    async def bill(self, whose: Whose, *, month: date, limit: int) -> Bill:
        """What a month has cost, beginning at midnight UTC of that day. ``limit`` bounds the calls, not the sums."""
        ...

    async def turns(self, run: UUID) -> Turns:
        """The newest 200 turns of a run; none when there is no such run."""
        ...

    async def session_of(self, contact: str, whose: Whose) -> UUID | None:
        """The open session that a name means, as ``History.session_contacts`` finds it; of several the last used."""
        ...

    async def largest(self, whose: Whose) -> OpenSession | None:
        """The open session with the fullest context; those of machines are left out."""
        ...

    async def idle(self, whose: Whose, *, longer_than: timedelta, limit: int) -> Sequence[str]:
        """Conversations whose open session rests for so long: no step, no end of a run, and none under way."""
        ...

    async def files(self) -> KnownFiles:
        """What the indexer knows."""
        ...
