"""Background jobs: asked for by name, with one JSON document, done by whoever serves the queue."""

from collections.abc import Mapping
from typing import Any, Protocol


class Queues(Protocol):
    """The roads of ``shared.messages.routes`` that end in ``_QUEUE``. What waits there may be lost with Redis, so
    every job must be one that is asked for again."""

    async def enqueue(self, queue: str, job: str, argument: Mapping[str, Any], *, job_id: str) -> bool:
        """Ask for a job; false when one with this id waits, runs, or ended within the last day.

        ``job`` is one of the ``_JOB`` names. Raises ``BadInput`` for an id with other signs than letters, digits, ``_``
        and ``-``, ``TryLater`` when Redis is away.
        """
        ...
