"""What the scheduler needs and nobody else does: to be the only one, to send, and to throw old rows away."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from shared.domain.delivery import Dispatch
from shared.domain.run import Address
from shared.errors import TryLater
from shared.ports.records import Whose


class Term(Protocol):
    """A time of leadership."""

    async def lost(self) -> None:
        """Return as soon as the leadership can't be counted on any more."""
        ...


class Leadership(Protocol):
    """At most one process leads."""

    def term(self) -> AbstractAsyncContextManager[Term | None]:
        """Try once to lead, for as long as the block lasts; ``None`` while another leads.

        Raises ``TryLater`` when Postgres is away.
        """
        ...


class NotSent(TryLater):
    """It has certainly not gone out, and nothing of it is stored."""


class Outbox(Protocol):
    """Where words for people may go. All raise ``TryLater``."""

    async def places(self, channel: str, chat: str | None, whose: Whose, *, limit: int) -> Sequence[str]:
        """Conversations of a channel that somebody has begun, of one chat or of all."""
        ...

    async def address(self, conversation: str) -> Address | None:
        """How a message to this conversation is addressed."""
        ...

    async def dispatch(self, run: UUID) -> Dispatch | None:
        """What became of a run that goes out; ``None``: there is no such run."""
        ...

    async def is_led(self, channel: str) -> bool:
        """Whether a bridge is there that sends what goes out."""
        ...


class Upkeep(Protocol):
    """Forgets rows that nobody may need. Each call takes away at most ``limit`` rows and tells how many.

    All raise ``TryLater``.
    """

    async def forget_keys(self, *, limit: int) -> int:
        """Idempotency keys that have expired."""
        ...

    async def forget_steps(self, *, ended_for: timedelta, limit: int) -> int:
        """What runs have told that ended that long ago."""
        ...

    async def forget_events(self, *, older_than: timedelta, limit: int) -> int:
        """Audit events."""
        ...

    async def forget_sentences(self, *, older_than: timedelta, limit: int) -> int:
        """What a bridge has said by itself, beside any run."""
        ...

    async def forget_schedules(self, *, older_than: timedelta, limit: int) -> int:
        """Schedules that have fired, were cancelled, or failed that long ago."""
        ...

    async def forget_deliveries(self, *, older_than: timedelta, limit: int) -> int:
        """What was sent that long ago, and what was dropped. What was given up stays until somebody decides."""
        ...

    async def forget_webhooks(self, *, older_than: timedelta, limit: int) -> int:
        """The same of webhooks."""
        ...

    async def forget_workers(self, *, ended_for: timedelta, limit: int) -> int:
        """Workers that ended that long ago and own no conversation."""
        ...

    async def book_left_open(self, *, limit: int) -> int:
        """Reservations of workers that live no more: the worst case is booked as a guess, and they are closed."""
        ...

    async def forget_reservations(self, *, older_than: timedelta, limit: int) -> int:
        """Reservations that were settled that long ago and have their row of costs."""
        ...

    async def forget_costs(self, *, months: int, limit: int) -> int:
        """Costs of that many months ago and older."""
        ...

    async def forget_blobs(self, *, older_than: timedelta, limit: int) -> int:
        """Attachments that came that long ago, of runs that ended that long ago."""
        ...

    async def forget_runs(self, *, older_than: timedelta, limit: int) -> int:
        """Runs that ended and were told that long ago and have neither an idempotency key nor an attachment left.

        Sub-agents' runs are kept as long as the run that they work for. Messages and costs stay.
        """
        ...

    async def forget_children(self, *, older_than: timedelta, limit: int) -> int:
        """Conversations of sub-agents that are that old and have no run left, with all that was said there."""
        ...
