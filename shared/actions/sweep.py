"""Finds what fell between the chairs, in Postgres, where nothing does. Idempotent, and nobody leads it."""

import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import structlog

from shared.errors import TryLater
from shared.ports.bus import Batch, Bulletin, WakeUp, WakeUps
from shared.ports.clock import Clock
from shared.ports.runs import Runs

log = structlog.get_logger(__name__)

EVERY = timedelta(seconds=1)
GRACE = timedelta(seconds=1)
"""Work younger than this is on its normal way and not looked for."""

KEPT = timedelta(hours=1)
"""For how long Redis keeps streams and futures, and so what an emptied one is given back."""

WAKES_AGAIN = 1000
ABANDONED = timedelta(seconds=30)
LIMIT = 200


async def sweep_for_ever(sweep: Callable[[], Awaitable[None]], clock: Clock, chance: random.Random) -> None:
    """Sweep every second with jitter, so that many workers do not all look at once."""
    while True:
        await clock.sleep(EVERY.total_seconds() * (0.75 + 0.5 * chance.random()))
        try:
            await sweep()
        except TryLater as fault:
            log.warning("sweep_put_off", reason=str(fault))


async def refill(runs: Runs, bulletin: Bulletin, *, channels: Sequence[str] = ()) -> bool:
    """Have everything told again when Redis was emptied; true when it was.

    Runs that nobody has in hand are announced, bridges of ``channels`` are told to look, and the ends of the last hour
    are told once more. Marked only afterwards: who dies in between leaves it to the next sweep, and telling twice
    changes nothing.
    """
    if not await bulletin.is_emptied():
        return False
    ends = await runs.tell_again(ended_within=KEPT)
    waiting = await runs.orphans(older_than=timedelta(0), limit=WAKES_AGAIN)
    await bulletin.publish(Batch(wake=[WakeUp(conversation) for conversation in waiting], outbound=tuple(channels)))
    await bulletin.mark_filled()
    log.info("redis_refilled", ends=ends, conversations=len(waiting))
    return True


async def publish_unpublished(runs: Runs, bulletin: Bulletin, clock: Clock, *, older_than: timedelta = GRACE) -> int:
    """Tell ends that were committed but perhaps never told; how many."""
    finished = await runs.unpublished(older_than=older_than, limit=LIMIT)
    if finished:
        began = clock.monotonic()
        await bulletin.publish(Batch(finished=finished))
        told_within = timedelta(seconds=clock.monotonic() - began)
        await runs.published([ended.run for ended in finished], told_within=told_within)
        log.info("ends_published", runs=len(finished))
    return len(finished)


async def forget_abandoned(wake_ups: WakeUps, bulletin: Bulletin) -> None:
    """Drop wake-ups whose reader died: what they said is in Postgres, where the sweep finds it."""
    abandoned = await wake_ups.reclaim(idle=ABANDONED, limit=LIMIT)
    if abandoned:
        await bulletin.publish(Batch(acknowledge=[wake_up.entry for wake_up in abandoned]))
