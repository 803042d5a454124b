"""End the run of a client that has hung up, if it is still that client's own."""

from collections.abc import Callable
from uuid import UUID

import structlog

from shared.actions.cancel_run import cancel_run
from shared.domain.run import Accepted
from shared.ports.bus import WakeUps
from shared.ports.control import Control
from shared.ports.runs import Inbox

REASON = "Its client hung up."

log = structlog.get_logger(__name__)


def may_end_with(accepted: Accepted) -> bool:
    """Whether this request is the one that made the run. One that others brought about is not its client's to end."""
    return accepted.created and accepted.into is None


async def end_with_client(
    run: UUID, *, others: Callable[[UUID], bool], inbox: Inbox, control: Control, wake_ups: WakeUps
) -> None:
    """Cancel it, unless it answers somebody else: ``others`` knows who waits for it in this process (by the same
    idempotency key, or following it), the inbox whether it shares its answer with another message.

    Raises ``TryLater`` without Postgres.
    """
    if others(run):
        log.info("run_goes_on_for_others", run=str(run))
        return
    await cancel_run(run, inbox=inbox, control=control, wake_ups=wake_ups, reason=REASON, if_shared=False)
