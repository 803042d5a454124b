"""End a run because somebody asks for it. It is stored first, and holds over every restart; then its worker is told."""

from datetime import timedelta
from uuid import UUID

import structlog

from shared.domain.run import CancelAnswer
from shared.errors import TryLater
from shared.ports.bus import Batch, Bulletin, WakeUp, WakeUps
from shared.ports.control import Command, Control
from shared.ports.runs import Inbox, Runs

log = structlog.get_logger(__name__)

CANCELLED = "It was cancelled."
OVERDUE = timedelta(seconds=3.5)
"""How long a worker may take to end a run it was told to end; then the run is ended over its head, by who looks every
second: within five in any case."""

AT_ONCE = 200
TOLD_WITHIN = timedelta(seconds=10)
"""More than telling takes. After a refill of Redis they are told once more for it, which changes nothing."""


async def cancel_run(
    run: UUID, *, inbox: Inbox, control: Control, wake_ups: WakeUps, reason: str = CANCELLED, if_shared: bool = True
) -> CancelAnswer:
    """Ask for the end of a run, or bring it about where nobody works on it; ``if_shared``: also of one that answers
    several messages. Raises ``TryLater`` without Postgres."""
    answer = await (inbox.cancel if if_shared else inbox.hang_up)(run, reason=reason)
    match answer.status:
        case "asked":
            await tell_to_cancel(Command("cancel", answer.run, answer.conversation, reason), control)
        case "cancelled":
            try:
                await wake_ups.wake([WakeUp(answer.conversation)])  # what stands behind it
            except TryLater as fault:
                log.warning("wake_up_not_sent", run=str(run), reason=str(fault))
    log.info("cancel_asked", run=str(answer.run), status=answer.status)
    return answer


async def tell_to_cancel(command: Command, control: Control) -> None:
    """Tell the workers; when Redis is away their sweep finds it in Postgres within a second."""
    try:
        await control.tell(command)
    except TryLater as fault:
        log.warning("command_not_told", run=str(command.run), reason=str(fault))


async def end_overdue(runs: Runs, inbox: Inbox, bulletin: Bulletin, *, older_than: timedelta = OVERDUE) -> int:
    """End runs whose worker has not heeded a cancel, whatever holds it up, and tell; how many. Raises ``TryLater``."""
    ended = await runs.cancel_overdue(older_than=older_than, limit=AT_ONCE)
    if not ended:
        return 0
    log.warning("runs_ended_by_force", runs=[str(run) for run, _ in ended])
    finished = await inbox.outcomes([run for run, _ in ended])
    wake = [WakeUp(conversation) for _, conversation in ended]
    await bulletin.publish(Batch(finished=finished, wake=wake))
    await runs.published([each.run for each in finished], told_within=TOLD_WITHIN)
    return len(ended)
