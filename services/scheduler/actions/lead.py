"""Be the one scheduler that works, or stand by until it is gone."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Literal

import structlog

from services.scheduler.ports import Leadership, Term
from shared.errors import TryLater
from shared.ports.clock import Clock

log = structlog.get_logger(__name__)

TRY_EVERY = timedelta(seconds=2)

Role = Literal["leader", "standby"]


async def lead_or_stand_by(
    leadership: Leadership, work: Callable[[], Awaitable[None]], clock: Clock, on_role: Callable[[Role], None]
) -> None:
    """Do ``work`` while leading, and never else; ends only when cancelled or when ``work`` fails."""
    while True:
        on_role("standby")
        try:
            async with leadership.term() as term:
                if term is not None:
                    log.info("leading")
                    on_role("leader")
                    await _until_lost(term, work)
                    log.warning("leadership_lost")
                    on_role("standby")
        except TryLater as fault:
            log.warning("leadership_unknown", reason=str(fault))
        await clock.sleep(TRY_EVERY.total_seconds())


async def _until_lost(term: Term, work: Callable[[], Awaitable[None]]) -> None:
    working = asyncio.ensure_future(work())
    losing = asyncio.ensure_future(term.lost())
    try:
        await asyncio.wait({working, losing}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        both = [task for task in (working, losing) if not task.done()]
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
    if working.done() and not working.cancelled():
        working.result()
