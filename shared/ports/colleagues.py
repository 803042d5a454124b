"""What other workers tell of themselves. A hint and never more: it may be seconds old, or missing."""

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from shared.messages.worker_figures import WorkerFigures


class Colleagues(Protocol):
    """The monitor hashes of workers, read by other workers."""

    async def figures(self, workers: Sequence[UUID]) -> Mapping[UUID, WorkerFigures]:
        """What these have told lately; whoever has not is left out. Raises ``TryLater`` within a second."""
        ...
