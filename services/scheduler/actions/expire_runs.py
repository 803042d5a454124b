"""End runs whose time is over, and tell those who wait for them at once."""

from datetime import timedelta

import structlog

from shared.ports.bus import Batch, Bulletin
from shared.ports.runs import Inbox, Runs

log = structlog.get_logger(__name__)

AT_ONCE = 200
TOLD_WITHIN = timedelta(seconds=10)
"""More than telling takes; see ``Runs.published``."""


async def expire_runs(runs: Runs, inbox: Inbox, bulletin: Bulletin) -> int:
    """End and tell; how many. When Redis is away (``TryLater``) the sweep of the workers tells later."""
    ended = await runs.expire(limit=AT_ONCE)
    if not ended:
        return 0
    log.info("runs_expired", runs=len(ended))
    finished = await inbox.outcomes(ended)
    await bulletin.publish(Batch(finished=finished))
    await runs.published([each.run for each in finished], told_within=TOLD_WITHIN)
    return len(ended)
