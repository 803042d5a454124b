"""Ask for the background jobs that are due."""

from collections.abc import MutableMapping

import structlog

from services.scheduler.rules.calendar import due
from shared.ports.clock import Clock
from shared.ports.queues import Queues

log = structlog.get_logger(__name__)


async def enqueue_due(queues: Queues, clock: Clock, asked: MutableMapping[str, str]) -> int:
    """Ask once for each; how many are new. ``asked`` remembers the last job id of each errand between calls.

    Raises ``TryLater`` when Redis is away: what was not asked for then still is due at the next call.
    """
    fresh = 0
    for each in due(clock.now()):
        errand = each.errand
        if asked.get(errand.name) == each.job_id:
            continue
        argument = {"due": each.at.isoformat()}
        is_fresh = await queues.enqueue(errand.queue, errand.job, argument, job_id=each.job_id)
        asked[errand.name] = each.job_id
        if is_fresh:
            fresh += 1
            log.info("job_enqueued", queue=errand.queue, job=each.job_id)
    return fresh
