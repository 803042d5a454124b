"""Sub-agents, seen from those who wait for them: their ends are collected, and a run that may go on is woken."""

from uuid import UUID

import structlog

from services.agent_worker.actions.desk import Desk
from shared.errors import TryLater

log = structlog.get_logger(__name__)

AT_ONCE = 200


async def collect_children(parent: UUID, desk: Desk) -> None:
    """Write the ends of a run's children into its calls; it is woken when it waited for the last of them.

    Without Postgres nothing is lost: the next sweep finds them.
    """
    try:
        conversation = await desk.children.collect(parent)
    except TryLater as fault:
        log.warning("children_not_collected", parent=str(parent), reason=str(fault))
        return
    if conversation is not None:
        desk.outlet.wake(conversation)


async def mind_children(desk: Desk) -> None:
    """Do so for all, and have children end whose parent has ended. Raises ``TryLater``."""
    for conversation in await desk.children.mind(limit=AT_ONCE):
        desk.outlet.wake(conversation)
