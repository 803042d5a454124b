"""What workers tell of themselves, without a Redis."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from shared.errors import TryLater
from shared.messages.worker_figures import WorkerFigures, figures_of


class InMemoryColleagues:
    """``Colleagues`` of the ports. ``away`` is a Redis that can't be reached, ``asked`` how often it was asked."""

    def __init__(self) -> None:
        self._told: dict[UUID, Mapping[str, str]] = {}
        self.away = False
        self.asked = 0

    def tell(self, worker: UUID, fields: Mapping[str, str]) -> None:
        """What a worker writes every two seconds."""
        self._told[worker] = dict(fields)

    def forget(self, worker: UUID) -> None:
        """What happens to a hash that is not told again."""
        self._told.pop(worker, None)

    async def figures(self, workers: Sequence[UUID]) -> Mapping[UUID, WorkerFigures]:
        """See ``Colleagues.figures``."""
        self.asked += 1
        if self.away:
            raise TryLater("Redis can't be reached")
        told = {worker: figures_of(self._told.get(worker, {})) for worker in workers}
        return {worker: figures for worker, figures in told.items() if figures is not None}
