"""What happens again and again while this process leads. The only place that knows APScheduler."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from shared.errors import TryLater
from shared.ports.clock import Clock

log = structlog.get_logger(__name__)

LATE_AT_MOST = timedelta(seconds=30)
END_WITHIN = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Beat:
    """``act`` is done ``every`` so often, the first time ``after`` the start; never twice at the same time."""

    name: str
    act: Callable[[], Awaitable[object]]
    every: timedelta
    after: timedelta = timedelta(0)


async def keep_time(beats: Sequence[Beat], clock: Clock) -> None:
    """Do all beats until cancelled; then whatever is in hand is broken off, and this returns when it has ended."""
    # A beat that takes longer than its period is no news each second; its own faults are told by it.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    scheduler = AsyncIOScheduler(
        timezone=UTC,
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": LATE_AT_MOST.total_seconds()},
    )
    in_hand = _InHand()
    for beat in beats:
        scheduler.add_job(
            in_hand.guarded(beat),
            IntervalTrigger(seconds=beat.every.total_seconds(), timezone=UTC),
            id=beat.name,
            next_run_time=clock.now() + beat.after,
        )
    scheduler.start()
    try:
        await asyncio.Event().wait()
    finally:
        scheduler.pause()
        await in_hand.end()
        scheduler.shutdown(wait=False)
        await asyncio.sleep(0)  # it ends itself in the loop's next round


class _InHand:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self._ending = False

    def guarded(self, beat: Beat) -> Callable[[], Awaitable[None]]:
        """The beat as APScheduler gets it: it never sees a fault, and every fault is told once."""

        async def act() -> None:
            if self._ending:
                return
            task = asyncio.current_task()
            assert task is not None  # noqa: S101 - a coroutine runs in a task
            self._tasks.add(task)
            try:
                await beat.act()
            except asyncio.CancelledError:
                if not self._ending:
                    raise
            except TryLater as fault:
                log.warning("put_off", what=beat.name, reason=str(fault))
            except Exception:  # one beat's mistake must not stop the others, nor its own next time
                log.exception("beat_failed", what=beat.name)
            finally:
                self._tasks.discard(task)

        return act

    async def end(self) -> None:
        self._ending = True
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(tasks, timeout=END_WITHIN.total_seconds())
