"""Fence workers whose beat stands still, by our own monotonic clock; and at once those of this host that are gone."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

import structlog

from shared.errors import TryLater
from shared.ports.clock import Clock
from shared.ports.fleet import Fleet, Identity

log = structlog.get_logger(__name__)

STILL_FOR = timedelta(seconds=6)
LOOK_WITHIN = timedelta(seconds=1)
LOOK_AGAIN_WITHIN = timedelta(seconds=3)
"""Beyond these something was held up, Postgres or this process, and that may have held up the beats as well."""


class PeerWatch:
    """Remembers when each peer's beat was first seen as it is. One per process."""

    def __init__(self, fleet: Fleet, clock: Clock, *, me: UUID | None, is_gone: Callable[[Identity], bool]) -> None:
        self._fleet = fleet
        self._clock = clock
        self._me = me
        self._is_gone = is_gone
        self._seen: dict[UUID, tuple[int, float]] = {}
        self._looked_at: float | None = None
        self.others: Sequence[Identity] = ()
        """The living peers, as they were seen last."""

    async def look(self) -> Sequence[str]:
        """Fence who is dead; the conversations that are free now.

        Raises ``TryLater`` when Postgres is away; what was seen before then counts no more, for nobody could beat. Nor
        does it when Postgres took long to answer, or when the last look is long ago.
        """
        try:
            return await self._look()
        except TryLater:
            self._seen.clear()
            raise

    async def _look(self) -> Sequence[str]:
        asked_at = self._clock.monotonic()
        peers = await self._fleet.peers()
        now = self._clock.monotonic()
        if now - asked_at > LOOK_WITHIN.total_seconds() or self._last_look_is_old(asked_at):
            self._seen.clear()
        self._looked_at = now
        self.others = [peer.identity for peer in peers if peer.identity.id != self._me]
        freed: list[str] = []
        seen: dict[UUID, tuple[int, float]] = {}
        for peer in peers:
            worker = peer.identity.id
            if worker == self._me:
                continue
            beat, since = self._seen.get(worker, (peer.beat, now))
            if beat != peer.beat:
                beat, since = peer.beat, now
            seen[worker] = (beat, since)
            gone = self._is_gone(peer.identity)
            if gone or now - since >= STILL_FOR.total_seconds():
                theirs = await self._fleet.fence(worker, beat=beat, state="fenced")
                if theirs is None:
                    continue  # it has beaten meanwhile, or a peer was faster
                log.warning("worker_fenced", worker=str(worker), gone=gone, conversations=len(theirs))
                freed.extend(theirs)
        self._seen = seen
        return freed

    def _last_look_is_old(self, now: float) -> bool:
        return self._looked_at is not None and now - self._looked_at > LOOK_AGAIN_WITHIN.total_seconds()
