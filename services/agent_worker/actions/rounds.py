"""What a worker does beside its conversations: looks for what fell between the chairs, and says goodbye."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog

from services.agent_worker.actions.desk import Desk
from services.agent_worker.actions.heed_control import stop_cancelled
from services.agent_worker.actions.mind_children import mind_children
from services.agent_worker.actions.take_work import WorkInHand
from services.agent_worker.actions.work_on import book_what_is_owed
from shared.actions.cancel_run import end_overdue
from shared.actions.sweep import forget_abandoned, publish_unpublished, refill
from shared.actions.watch_peers import PeerWatch
from shared.errors import TryLater
from shared.ports.bus import Bulletin, WakeUps
from shared.ports.fleet import Fleet
from shared.ports.runs import Inbox, Runs

log = structlog.get_logger(__name__)

ORPHAN_AFTER = timedelta(seconds=1)
ORPHANS_AT_ONCE = 200
CARRIED = ("telegram",)
"""Channels whose bridges are told to look when Redis was emptied."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """One per worker process. ``drain_within`` is how long a run may take to come to its next step at the goodbye."""

    desk: Desk
    hand: WorkInHand
    runs: Runs
    inbox: Inbox
    fleet: Fleet
    watch: PeerWatch
    bulletin: Bulletin
    wake_ups: WakeUps
    drain_within: timedelta

    async def sweep(self) -> None:
        """Find what nobody else would. Raises ``TryLater`` when Postgres is away; the next round goes on."""
        await self._take(await self.watch.look())
        await mind_children(self.desk)
        await self.mind_what_is_in_hand()
        await self._take(await self._orphans())
        await end_overdue(self.runs, self.inbox, self.bulletin)

    async def tell(self) -> None:
        """Tell what was not told. By itself, for a Redis that is mute takes seconds to be given up, and work must not
        wait for that. Raises ``TryLater``."""
        with _told_if_possible("refill"):  # what takes long there must not hold up the ends of today
            await refill(self.runs, self.bulletin, channels=CARRIED)
        await publish_unpublished(self.runs, self.bulletin, self.desk.clock)
        await forget_abandoned(self.wake_ups, self.bulletin)

    async def mind_what_is_in_hand(self) -> None:
        """Stop what is another's by now or is to end, and book what is owed. Raises ``TryLater``."""
        held = self.hand.epochs
        for conversation in await self.runs.overtaken(held, worker=self.desk.worker) if held else ():
            self.hand.overtaken(conversation, held[conversation])
        await stop_cancelled(self.runs, self.hand)
        await book_what_is_owed(self.desk)

    async def drain(self) -> None:
        """Take nothing more, bring what is in hand to its next step, and leave the rest to the peers.

        While Postgres is away nobody can be told: the peers find this worker gone when it is back.
        """
        desk, hand = self.desk, self.hand
        desk.draining.set()
        hand.pass_on()
        with _told_if_possible("draining"):
            await self.fleet.drain(desk.worker)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.drain_within.total_seconds()):
                await hand.empty()
                async with hand.reading:
                    pass  # what was read last has been passed on; read after this goodbye, it would wait for the sweep
        dropped = hand.epochs
        freed = set(await hand.drop())
        with _told_if_possible("costs"):  # first: the goodbye books what is open at its worst case
            await book_what_is_owed(desk)
        with _told_if_possible("dropped"):
            for conversation, epoch in dropped.items():  # one by one, so that these attempts do not count
                await self.runs.hand_back(conversation, worker=desk.worker, epoch=epoch)
        with _told_if_possible("stopped"):
            freed.update(await self.fleet.fence(desk.worker, beat=None, state="stopped") or ())
        for conversation in freed:
            desk.outlet.wake(conversation)
        await desk.outlet.flush()
        await desk.outlet.note_published()

    async def _orphans(self) -> Sequence[str]:
        hand = self.hand
        if hand.free == 0:
            return ()
        return await self.runs.orphans(
            older_than=ORPHAN_AFTER,
            limit=ORPHANS_AT_ONCE,
            worker=self.desk.worker,
            in_hand=hand.conversations,
            full=hand.full,
        )

    async def _take(self, conversations: Sequence[str]) -> None:
        """Take what would begin at once, and have some more wait here, so that no slot is empty until the next round.

        Peers that have room take the same, and whoever begins first has it. The rest is left for the next round.
        """
        if not conversations:
            return
        principals = await self.runs.principals(conversations)
        for conversation in conversations if self.hand.takes else ():
            principal = principals.get(conversation, "")
            if self.hand.has_room(principal) or self.hand.in_line < ORPHANS_AT_ONCE:
                self.hand.take(conversation, principal)


@contextlib.contextmanager
def _told_if_possible(what: str) -> Iterator[None]:
    try:
        yield
    except TryLater as fault:
        log.warning("not_told", what=what, reason=str(fault))
