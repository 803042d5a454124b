"""Background jobs: asked for by name, with one JSON document, done by whoever serves the queue."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol


class Queues(Protocol):
    """The roads of ``shared.messages.routes`` that end in ``_QUEUE``. What waits there may be lost with Redis, so
    every job must be one that is asked for again."""

    async def enqueue(self, queue: str, job: str, argument: Mapping[str, Any], *, job_id: str) -> bool:
        """Ask for a job; false when one with this id waits, runs, or ended within the last day.

        ``job`` is one of the ``_JOB`` names. Raises ``BadInput`` for an id with other signs than letters, digits, ``_``
        and ``-``, ``TryLater`` when Redis is away.
        """
        ...


JobState = Literal["queued", "started", "finished", "failed"]


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its queue knows it. ``result`` is the JSON it ended with, as text."""

    id: str
    queue: str
    state: JobState
    enqueued_at: datetime | None
    ended_at: datetime | None
    result: str | None


class JobDesk(Queues, Protocol):
    """Queues that can be asked what became of a job."""

    async def job(self, job_id: str) -> Job | None:
        """What is known of it; ``None`` for one that nobody knows, or that ended more than a day ago.

        Raises ``TryLater`` when Redis is away.
        """
        ...
