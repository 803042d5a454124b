"""Where runs are kept: the four transactions and what surrounds them. Truth is here; Redis only wakes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from shared.domain.run import (
    Accepted,
    CancelAnswer,
    Claim,
    ClaimRefusal,
    Decision,
    Later,
    NewRun,
    Question,
    Route,
    Settlement,
    Stored,
    Write,
)


@dataclass(frozen=True, slots=True)
class Cached:
    """What a worker still has of a session's history: rows ``live_from`` to ``ordinal``."""

    session: UUID
    ordinal: int
    live_from: int


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A terminal run as it is published. ``outcome`` is what its future holds.

    ``after`` is the last event that was told before the end; ``None`` when only whoever told it could know.
    """

    run: UUID
    conversation: str
    terminal: str
    outcome: Mapping[str, Any]
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    """What a reset did: the session it closed, and the runs it cancelled."""

    session: UUID
    cancelled: Sequence[UUID]


class Inbox(Protocol):
    """What those need who bring messages and await outcomes."""

    async def accept(self, new: NewRun) -> Accepted:
        """Store the message; when this returns it can't be lost. Safe to call again with the same id.

        A text in a conversation whose run waits for its sender's answer is that answer: it is merged into the run.
        Raises ``Conflict`` (the idempotency key came with another body; or the conversation is busy and the message
        asked to be refused then), ``Full`` (too many wait in this conversation), ``TryLater`` (Postgres is away).
        """
        ...

    async def open_runs(self) -> Mapping[str, int]:
        """How many runs each principal has that were accepted and have not ended. Raises ``TryLater``."""
        ...

    async def adds_nothing(self, new: NewRun) -> bool:
        """Whether this message would open no further run, as far as can be told before: its idempotency key is known,
        or its sender is being asked something in that conversation. Raises ``TryLater``."""
        ...

    async def cancel(self, run: UUID, *, reason: str) -> CancelAnswer:
        """End a run: at once when nobody has it in hand, else its worker is to. It stays asked for over restarts."""
        ...

    async def hang_up(self, run: UUID, *, reason: str) -> CancelAnswer:
        """As ``cancel``, on behalf of whoever sent its message and is gone. One that was merged, or took another in,
        answers somebody else: it is ``shared`` and goes on."""
        ...

    async def decide(self, approval: UUID, *, allows: bool, answer: str, by: str) -> Decision:
        """Answer one question, once; the run goes on when it was the last."""
        ...

    async def questions(self, runs: Sequence[UUID]) -> Sequence[Question]:
        """Those of ``runs`` that wait for a person, with what they ask."""
        ...

    async def outcomes(self, runs: Sequence[UUID]) -> Sequence[FinishedRun]:
        """Those of ``runs`` that have ended."""
        ...

    async def reset(
        self, conversation: str, run: UUID, *, source: str, sender: str, rested: timedelta | None = None
    ) -> Reset | None:
        """Close the open session and cancel the run in hand; ``None`` when there is no open session.

        ``rested``: only if the session rests for so long and no run of its conversation is open, as it stands when
        nothing can come in between; else ``None``, and nothing was changed.
        """
        ...


class Runs(Protocol):
    """What a worker needs. Every write names the claim's epoch, and a lost claim writes nothing."""

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
        """Take the conversation and the run that stands first. Raises ``TryLater`` when this took too long.

        First stands what was begun, then what interrupts, then the oldest. ``suspect``: this process has room for a run
        that two processes died with; ``alone``: it does nothing else, and may take one that three died with. Messages
        in a row from one sender of a channel become one, when the newest is ``debounce`` old.

        Asked again by the worker that has the run in hand, it counts no attempt, and what that worker has reserved for
        the run under other call ids is booked at its worst case.
        """
        ...

    async def store(self, conversation: str, *, worker: UUID, epoch: int, write: Write) -> Stored:
        """Store one step, a wait, or the end.

        Raises ``LostClaim``; the settlement, if any, is booked even then. Safe to call again with the same write.
        """
        ...

    async def settle(self, settlement: Settlement) -> None:
        """Book a call that belongs to no step any more. Not fenced; booking it twice books it once.

        One that was never made, and whose reservation was never stored either, leaves nothing.
        """
        ...

    async def hand_back(self, conversation: str, *, worker: UUID, epoch: int, unbegun: bool = False) -> bool:
        """Give the conversation up unworked; the attempt does not count. ``unbegun`` as in ``Write``."""
        ...

    async def orphans(
        self,
        *,
        older_than: timedelta,
        limit: int,
        worker: UUID | None = None,
        in_hand: Sequence[str] = (),
        full: Sequence[str] = (),
    ) -> Sequence[str]:
        """Conversations with an open run that nobody living owns, or that ``worker`` owns without having it in hand.

        Runs of the principals in ``full`` are left where they are.
        """
        ...

    async def principals(self, conversations: Sequence[str]) -> Mapping[str, str]:
        """Whose those conversations are; one that is not there is left out. Raises ``TryLater``."""
        ...

    async def overtaken(self, epochs: Mapping[str, int], *, worker: UUID) -> Sequence[str]:
        """Those conversations that ``worker`` holds with these epochs and no longer owns."""
        ...

    async def cancels(self, epochs: Mapping[str, int]) -> Mapping[str, str]:
        """Those conversations, held with these epochs, whose run is to end, with the reason."""
        ...

    async def cancel_overdue(self, *, older_than: timedelta, limit: int) -> Sequence[tuple[UUID, str]]:
        """End runs that were asked to end so long ago, whoever holds them: their ids and conversations."""
        ...

    async def unpublished(self, *, older_than: timedelta, limit: int) -> Sequence[FinishedRun]:
        """Ended runs whose end may not have been told."""
        ...

    async def published(self, runs: Sequence[UUID], *, told_within: timedelta) -> None:
        """Remember that these were told, at most ``told_within`` ago.

        Not when everything was told again since (``tell_again``): what was told before that went down with Redis.
        """
        ...

    async def tell_again(self, *, ended_within: timedelta) -> int:
        """Forget that the ends of the last while were told, so that the sweep tells them once more; how many."""
        ...

    async def expire(self, *, limit: int) -> Sequence[UUID]:
        """Fail runs whose deadline has passed, whoever holds them."""
        ...
