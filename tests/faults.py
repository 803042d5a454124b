"""Faults at the seams, as wrappers around any implementation of a port."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from shared.domain.run import Claim, ClaimRefusal, Later, Route, Settlement, Stored, Write
from shared.errors import LostClaim, TryLater
from shared.ports.bus import Batch, Bulletin
from shared.ports.runs import Cached, FinishedRun, Runs


class Interrupted(BaseException):
    """The process is killed here. Not an ``Exception``: nothing in the product may catch it."""


class FaultyRuns:
    """``Runs`` that pass everything on, but for the faults that were asked for.

    ``lose_answers``: that many writes are stored, and ``TryLater`` is raised all the same. ``refuse``: that many are
    not stored, and ``TryLater`` is raised; ``refuse_claims`` is the same for claims. ``die_before``, ``die_after``: the
    process dies at that write (from 1). ``lose_claim_at``: at that write the claim is another's. ``pauses``: seconds
    that the next writes take. ``writes`` holds everything that was stored.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.lose_answers = 0
        self.refuse = 0
        self.refuse_claims = 0
        self.die_before: int | None = None
        self.die_after: int | None = None
        self.lose_claim_at: int | None = None
        self.pauses: list[float] = []
        self.writes: list[Write] = []
        self._asked = 0

    async def claim(
        self,
        conversation: str,
        *,
        worker: UUID,
        call_id: UUID,
        routes: Mapping[str, Route],
        cached: Cached | None,
        suspect: bool = True,
        alone: bool = False,
        debounce: timedelta = timedelta(0),
    ) -> Claim | ClaimRefusal | Later:
        if self.refuse_claims > 0:
            self.refuse_claims -= 1
            raise TryLater("Postgres can't be reached")
        return await self._runs.claim(
            conversation,
            worker=worker,
            call_id=call_id,
            routes=routes,
            cached=cached,
            suspect=suspect,
            alone=alone,
            debounce=debounce,
        )

    async def store(self, conversation: str, *, worker: UUID, epoch: int, write: Write) -> Stored:
        self._asked += 1
        if self.pauses:
            await asyncio.sleep(self.pauses.pop(0))
        if self._asked == self.die_before:
            raise Interrupted
        if self._asked == self.lose_claim_at:
            if write.settle is not None:
                await self._runs.settle(write.settle)
            raise LostClaim(conversation)
        if self.refuse > 0:
            self.refuse -= 1
            raise TryLater("Postgres can't be reached")
        stored = await self._runs.store(conversation, worker=worker, epoch=epoch, write=write)
        self.writes.append(write)
        if self._asked == self.die_after:
            raise Interrupted
        if self.lose_answers > 0:
            self.lose_answers -= 1
            raise TryLater("the connection broke in COMMIT")
        return stored

    async def settle(self, settlement: Settlement) -> None:
        await self._runs.settle(settlement)

    async def hand_back(self, conversation: str, *, worker: UUID, epoch: int, unbegun: bool = False) -> bool:
        return await self._runs.hand_back(conversation, worker=worker, epoch=epoch, unbegun=unbegun)

    async def cancels(self, epochs: Mapping[str, int]) -> Mapping[str, str]:
        return await self._runs.cancels(epochs)

    async def cancel_overdue(self, *, older_than: timedelta, limit: int) -> Sequence[tuple[UUID, str]]:
        return await self._runs.cancel_overdue(older_than=older_than, limit=limit)

    async def orphans(
        self,
        *,
        older_than: timedelta,
        limit: int,
        worker: UUID | None = None,
        in_hand: Sequence[str] = (),
        full: Sequence[str] = (),
    ) -> Sequence[str]:
        return await self._runs.orphans(older_than=older_than, limit=limit, worker=worker, in_hand=in_hand, full=full)

    async def principals(self, conversations: Sequence[str]) -> Mapping[str, str]:
        return await self._runs.principals(conversations)

    async def overtaken(self, epochs: Mapping[str, int], *, worker: UUID) -> Sequence[str]:
        return await self._runs.overtaken(epochs, worker=worker)

    async def unpublished(self, *, older_than: timedelta, limit: int) -> Sequence[FinishedRun]:
        return await self._runs.unpublished(older_than=older_than, limit=limit)

    async def published(self, runs: Sequence[UUID], *, told_within: timedelta) -> None:
        await self._runs.published(runs, told_within=told_within)

    async def tell_again(self, *, ended_within: timedelta) -> int:
        return await self._runs.tell_again(ended_within=ended_within)

    async def expire(self, *, limit: int) -> Sequence[UUID]:
        return await self._runs.expire(limit=limit)


class FlakyBulletin:
    """A ``Bulletin`` that may be ``away``; ``batches`` holds what was told while it was there."""

    def __init__(self, bulletin: Bulletin) -> None:
        self._bulletin = bulletin
        self.away = False
        self.batches: list[Batch] = []

    async def publish(self, batch: Batch) -> None:
        if self.away:
            raise TryLater("Redis can't be reached")
        await self._bulletin.publish(batch)
        self.batches.append(batch)

    async def is_emptied(self) -> bool:
        return await self._bulletin.is_emptied()

    async def mark_filled(self) -> None:
        await self._bulletin.mark_filled()
