"""The workers' rows, without a Postgres."""

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from shared.adapters.inmemory.tables import LIVING, Tables, WorkerRow
from shared.ports.fleet import Identity, Peer


class InMemoryFleet:
    """``Fleet`` of the ports."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def register(self, identity: Identity) -> None:
        """See ``Fleet.register``."""
        self._tables.workers.setdefault(identity.id, WorkerRow(identity))

    async def peers(self) -> Sequence[Peer]:
        """See ``Fleet.peers``."""
        return [Peer(row.identity, row.beat) for row in self._tables.workers.values() if row.state in LIVING]

    async def fence(
        self, worker: UUID, *, beat: int | None, state: Literal["fenced", "stopped"]
    ) -> Sequence[str] | None:
        """See ``Fleet.fence``."""
        row = self._tables.workers.get(worker)
        if row is None or row.state not in LIVING or (beat is not None and row.beat != beat):
            return None
        row.state = state
        freed = []
        for conversation in self._tables.conversations.values():
            if conversation.owner == worker:
                conversation.owner = None
                freed.append(conversation.key)
        for reservation in list(self._tables.reservations.values()):
            if reservation.worker == worker and not reservation.settled:
                self._tables.settle_unknown(reservation)
        return freed

    async def drain(self, worker: UUID) -> None:
        """See ``Fleet.drain``."""
        row = self._tables.workers.get(worker)
        if row is not None and row.state == "alive":
            row.state = "draining"

    def beat(self, worker: UUID) -> None:
        """Raise a worker's beat, as its thread would."""
        self._tables.workers[worker].beat += 1
