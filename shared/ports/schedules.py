"""Timers, which are rows: looked at, taken back, fired."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, Protocol
from uuid import UUID

from shared.domain.person import Identity
from shared.domain.schedule import Schedule, ScheduleState
from shared.ports.records import Whose

CancelledOr = Literal["cancelled", "unknown", "fired", "failed"]
"""What a cancel found: it is cancelled now (or was before), there is no such one, it was too late."""


class Schedules(Protocol):
    """For those who look at them and take them back: by person for the tools, by principal for the API."""

    async def of_person(self, whose: Identity) -> Sequence[Schedule]:
        """What is pending of this person, as whoever they made it, the next first, and behind it what has failed.

        Raises ``TryLater``.
        """
        ...

    async def listed(self, whose: Whose, *, state: ScheduleState | None, limit: int) -> Sequence[Schedule]:
        """Those of a principal, the newest first. Raises ``TryLater``."""
        ...

    async def cancel(self, id: int, whose: Whose) -> CancelledOr:
        """Take one back, if it is this principal's. Raises ``TryLater``."""
        ...


class DueSchedules(Protocol):
    """For the one who fires them. Each raises ``TryLater``."""

    async def take(self, *, limit: int) -> Sequence[Schedule]:
        """Those that are due, the oldest first, each with the run that it is to become: the same whoever takes it, as
        long as it was not put off. From here on it can't be cancelled."""
        ...

    async def fired(self, id: int, run: UUID | None) -> None:
        """It has become this run; a message becomes none."""
        ...

    async def put_off(self, schedule: Schedule, *, after: timedelta, reason: str, certain: bool) -> None:
        """It could not be accepted, and is tried again. Where that is ``certain`` it may be cancelled until then; where
        an answer got lost it stays the same run."""
        ...

    async def fail(self, id: int, *, reason: str) -> None:
        """It can't be fired, for good."""
        ...
