"""What travels over Redis, in our words. Everything here may be lost at any instant and is rebuilt from Postgres."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

from shared.messages.run_events import RunEvent
from shared.ports.runs import FinishedRun


@dataclass(frozen=True, slots=True)
class WakeUp:
    """A conversation has something to do. ``entry`` names the stream entry to acknowledge, when it came from one.

    ``principal`` is whose it is, for the fair sharing of slots; empty where whoever wakes does not know it.
    """

    conversation: str
    run: UUID | None = None
    traceparent: str | None = None
    entry: str = ""
    principal: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything that one flush tells, in this order. ``monitor`` maps a conversation to the fields of its hash;
    ``owners`` maps a conversation to ``<worker> <epoch>``, or to an empty text when it is free; ``outbound`` names the
    channels that have something to send."""

    events: Sequence[tuple[UUID, RunEvent]] = ()
    finished: Sequence[FinishedRun] = ()
    acknowledge: Sequence[str] = ()
    wake: Sequence[WakeUp] = ()
    monitor: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    owners: Mapping[str, str] = field(default_factory=dict)
    outbound: Sequence[str] = ()


class WakeUps(Protocol):
    """The road of new work: ``lucyd:inbound``."""

    async def wake(self, wake_ups: Sequence[WakeUp]) -> None:
        """Add wake-ups, and the ``accepted`` event of each that names a run.

        Raises ``TryLater`` when Redis does not take them within 200 ms; the sweep will wake later.
        """
        ...

    async def take(self, *, limit: int, wait: timedelta) -> Sequence[WakeUp]:
        """Up to ``limit`` wake-ups, waiting at most ``wait`` for the first; no time: what is there now.

        Raises ``TryLater``.
        """
        ...

    async def take_left(self, *, mark: str, limit: int) -> tuple[Sequence[WakeUp], str]:
        """Up to ``limit`` wake-ups, if one that stood on the road at ``mark`` was taken by nobody since; and the mark
        of now, for the next look. Without a mark nothing is taken.

        Raises ``TryLater``.
        """
        ...

    async def reclaim(self, *, idle: timedelta, limit: int) -> Sequence[WakeUp]:
        """Wake-ups that some consumer took that long ago and never acknowledged. Raises ``TryLater``."""
        ...


class Bulletin(Protocol):
    """Where a worker tells what happened."""

    async def publish(self, batch: Batch) -> None:
        """Tell everything in one pipeline. Telling again what was told changes nothing. Raises ``TryLater``."""
        ...

    async def is_emptied(self) -> bool:
        """Whether Redis holds nothing of ours: it was started anew, or emptied. Raises ``TryLater``."""
        ...

    async def mark_filled(self) -> None:
        """Say that what Redis should hold was told again, or is about to be. Raises ``TryLater``."""
        ...


class Outbound(Protocol):
    """The road of what goes out on one channel: ``lucyd:outbound:<channel>``. What is due stands in Postgres."""

    async def nudged(self, *, within: timedelta) -> bool:
        """Whether something is said to wait, as soon as it is said and at most after ``within``; says each word once.

        Raises ``TryLater``.
        """
        ...


class RunStreams(Protocol):
    """Reads what was told of runs."""

    async def read(self, run: UUID, *, after: str, limit: int = 500) -> Sequence[RunEvent]:
        """Events with an id greater than ``after``, oldest first; empty also when the stream is gone.

        Raises ``TryLater``.
        """
        ...

    async def results(self, runs: Sequence[UUID]) -> Mapping[UUID, Mapping[str, Any]]:
        """The futures that are there. Raises ``TryLater``."""
        ...


class Announcements(Protocol):
    """One subscription for a whole process. What it says may be lost; whoever waits looks again every second."""

    def finished(self) -> AsyncIterator[UUID]:
        """Runs as they end; goes on over reconnects until closed."""
        ...

    def follow(self, run: UUID) -> AbstractContextManager[asyncio.Event]:
        """An event that is set whenever something was added to the run's stream."""
        ...
