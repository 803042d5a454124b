"""The workers' rows, without a Postgres."""

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

from shared.adapters.inmemory.conclude import end_from_outside
from shared.adapters.inmemory.rows import WorkerRow
from shared.adapters.inmemory.tables import LIVING, Tables
from shared.ports.fleet import Identity, Peer

KILLED_FOUR = "Four processes died while they worked on this message, so it was given up."
STRONG, DEADLY = 2, 4


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
        died = state == "fenced" and row.state == "alive"
        row.state = state
        freed = sorted(key for key, owned in self._tables.conversations.items() if owned.owner == worker)
        if died:
            self._suspect(worker, freed)
        for key in freed:
            self._tables.conversations[key].owner = None
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

    async def absolve(self, worker: UUID) -> None:
        """Take its suspicions back, as the thread of its beat does when it finds itself fenced and alive."""
        for run in self._tables.runs.values():
            if run.suspected_by == worker and run.finished_at is None:
                run.suspected, run.suspected_by = max(0, run.suspected - 1), None

    def _suspect(self, worker: UUID, conversations: Sequence[str]) -> None:
        """Blame what it had in hand; strong suspects alone when there are any."""
        runs = [run for run in self._tables.runs.values() if run.conversation in conversations]
        in_hand = [run for run in runs if run.state == "running"]
        strong = [run for run in in_hand if run.suspected >= STRONG]
        for run in strong or in_hand:
            run.suspected, run.suspected_by = run.suspected + 1, worker
            if run.suspected >= DEADLY:
                end_from_outside(self._tables, run, "dead", KILLED_FOUR)
