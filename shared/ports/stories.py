"""All rows that speak of one run, for people who ask why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from shared.ports.dead_letters import Scope

Row = Mapping[str, Any]
"""Names as in the tables; points in time are ISO 8601, ids and amounts of money are text."""


@dataclass(frozen=True, slots=True)
class StoryRows:
    """The rows of one run, each kind in its order. None holds what was said, nor what a tool was given or answered.

    ``merged`` are the runs it took in, ``calls`` its model calls (reservation and cost in one row), ``workers`` those
    that had it in hand; ``key`` is its idempotency row, while there is one.
    """

    now: datetime
    run: Row
    key: Row | None = None
    merged: Sequence[Row] = ()
    events: Sequence[Row] = ()
    steps: Sequence[Row] = ()
    effects: Sequence[Row] = ()
    approvals: Sequence[Row] = ()
    calls: Sequence[Row] = ()
    workers: Sequence[Row] = ()
    deliveries: Sequence[Row] = ()
    webhooks: Sequence[Row] = ()


class Stories(Protocol):
    """Reads; nothing here changes anything. Both raise ``TryLater``."""

    async def matching(self, first: UUID, last: UUID, scope: Scope, *, limit: int = 5) -> Sequence[UUID]:
        """Runs with ids from ``first`` to ``last``, the oldest first."""
        ...

    async def rows(self, run: UUID) -> StoryRows | None:
        """Everything there is of a run."""
        ...
