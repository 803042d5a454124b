"""Webhooks out: the end of a run, told to somebody else. Each is made in the transaction that ends the run."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

CALLBACK = "callback"
"""The name under which a run's webhook knows the configured callback; its address stands in no table."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """One that a sender has in hand. ``id`` is the same at every try; ``attempts`` counts this one.

    ``tried_for``: how long ago it was made, or an operator asked for it once more. ``traceparent`` is the run's.
    """

    id: UUID
    run: UUID
    target: str
    body: Mapping[str, Any] = field(repr=False)
    attempts: int
    tried_for: timedelta
    traceparent: str | None = None


class Webhooks(Protocol):
    """Any number of senders may ask. All raise ``TryLater`` when Postgres is away; all may be called twice."""

    async def take(
        self, *, sender: UUID, targets: Sequence[str], in_hand: Collection[UUID], limit: int, stale: timedelta
    ) -> Sequence[Webhook]:
        """Up to ``limit`` that are due, now in this sender's hand and nobody else's; each counts as a try.

        Due is also what a sender took longer than ``stale`` ago without a word since, and what stands as taken by this
        one without being ``in_hand``: the answer to an earlier call got lost.
        """
        ...

    async def sent(self, webhook: Webhook, *, status: int) -> bool:
        """It was taken, with this HTTP status; true whoever has it in hand by now, unless an operator dropped it."""
        ...

    async def put_off(
        self, webhook: Webhook, *, sender: UUID, after: timedelta, status: int | None, reason: str
    ) -> bool:
        """This try failed: due again ``after`` so long. False, changing nothing: this sender has it in hand no more."""
        ...

    async def give_up(self, webhook: Webhook, *, sender: UUID, status: int | None, reason: str) -> bool:
        """This try was the last one. False, changing nothing: this sender has it in hand no more."""
        ...
