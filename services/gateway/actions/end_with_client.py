"""End the run of a client that has hung up, if it is still that client's own."""

from uuid import UUID

from shared.actions.cancel_run import cancel_run
from shared.ports.bus import WakeUps
from shared.ports.control import Control
from shared.ports.history import History
from shared.ports.runs import Inbox

REASON = "Its client hung up."


async def end_with_client(run: UUID, *, history: History, inbox: Inbox, control: Control, wake_ups: WakeUps) -> None:
    """Cancel it, unless another run has taken its message in meanwhile: that one answers somebody else.

    Raises ``TryLater`` without Postgres.
    """
    known = await history.run(run)
    if known is not None and known.state != "merged":
        await cancel_run(run, inbox=inbox, control=control, wake_ups=wake_ups, reason=REASON)
