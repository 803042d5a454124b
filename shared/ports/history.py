"""What is read for people: sessions, their messages, and what things cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, Protocol
from uuid import UUID

from shared.domain.money import Usage
from shared.domain.run import RunState
from shared.messages.run_events import RunEvent
from shared.ports.runs import FinishedRun

Period = Literal["today", "week", "all"]


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A line of the list of sessions. ``cost`` is in ``currency``; ``model`` is the last one used; ``row_count`` counts
    what was ever stored in it, ``message_count`` what of that a model is still shown."""

    id: UUID
    conversation: str
    contact: str
    model: str | None
    created_at: datetime
    updated_at: datetime
    message_count: int
    compaction_count: int
    context_tokens: int
    cost: Decimal
    currency: str
    row_count: int


@dataclass(frozen=True, slots=True)
class ModelCost:
    """What one model cost in a period."""

    model: str
    usage: Usage
    cost: Decimal
    currency: str
    calls: int


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it can be fetched."""

    id: UUID
    conversation: str
    principal: str
    session: UUID | None
    ordinal: int
    kind: str
    state: RunState
    attempts: int
    accepted_at: datetime
    finished_at: datetime | None
    outcome: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A stored message, compacted ones included. ``sender`` and ``source`` are those of its run, while that is kept;
    ``usage`` is that of the call that gave it, of an answer, while that is kept."""

    at: datetime
    run: UUID
    body: Mapping[str, Any]
    sender: str | None
    source: str | None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """Figures of a session, as the agent itself is told them. ``context_limit`` 0 means unknown."""

    context_tokens: int
    context_limit: int
    message_count: int
    compaction_count: int
    today_cost: Decimal
    today_tokens: int
    currency: str
    uptime: timedelta


@dataclass(frozen=True, slots=True)
class ToldSoFar:
    """What a run has told, as far as it is stored.

    Nothing up to ``complete_to`` will ever be added to ``events`` (``None``: no such run). ``more``: ask again for what
    comes after ``complete_to``. ``ended`` is the end, when it has come and nothing is left before it.
    """

    events: Sequence[RunEvent] = ()
    complete_to: str | None = None
    ended: FinishedRun | None = None
    more: bool = False


class Transcripts(Protocol):
    """What was told of runs, when Redis has lost it."""

    async def told(self, run: UUID, *, after: str) -> ToldSoFar:
        """Stored events after the id ``after``, in order; a piece of text of which a part was heard is cut there.

        Steps are stored whole: what is told of the one in hand is not there yet. Raises ``TryLater``.
        """
        ...

    async def moved(self, known: Mapping[UUID, str]) -> Mapping[UUID, str]:
        """Of these runs those of which ``told`` may have more to say than when they stood as is known, and how they
        stand now: a text that means nothing else. Empty: nothing is known. Raises ``TryLater``.
        """
        ...


class History(Transcripts, Protocol):
    """Reads; nothing here changes anything. ``principal`` ``None`` means all of them; with ``keyless`` also what
    belongs to no API key (channels, schedules)."""

    async def run(self, run: UUID) -> StoredRun | None:
        """One run."""
        ...

    async def sessions(
        self, *, principal: str | None, keyless: bool = False, limit: int = 200
    ) -> Sequence[SessionSummary]:
        """Open sessions, the one used last first; those of sub-agents at work are left out."""
        ...

    async def session_contacts(self, target: str, *, principal: str | None, keyless: bool = False) -> Sequence[str]:
        """Conversations with an open session that ``target`` names, the one used last first.

        A name is a session id, a conversation key, a contact, or its bare sender (``bob`` of ``http-bob``); a
        sub-agent's is found by the first two. The first of these that fits counts. Upper and lower case are one where
        nothing else fits, and where that leaves one contact: who is another must not be meant.
        """
        ...

    async def messages(
        self, session: UUID, *, principal: str | None, keyless: bool = False, limit: int = 2000
    ) -> Sequence[HistoryRow]:
        """The newest rows of a session in order, dropped ones left out; empty for an unknown id."""
        ...

    async def said(self, run: UUID) -> Sequence[str]:
        """What was answered in a run, turn by turn, as its session has it: also when its steps are forgotten."""
        ...

    async def costs(self, period: Period, *, principal: str | None = None) -> Sequence[ModelCost]:
        """Costs by model, the dearest first. Days begin at midnight UTC; a week is the last seven days."""
        ...

    async def counts(self) -> Mapping[str, int]:
        """``active_sessions`` (without sub-agents), ``queue_depth`` (accepted, not yet in hand), ``running``."""
        ...
