"""One purse for a message and for all that was spawned for it: each call waits until there is leave for it."""

from datetime import timedelta
from uuid import UUID

from services.agent_worker.actions.attempt import Attempt
from services.agent_worker.rules.spawning import SESSIONS_SPAWN
from shared.errors import LostClaim

LOOK_AGAIN = timedelta(seconds=0.25)


class OutOfMoney(Exception):
    """What may be spent on the message is spent."""


class StillOut(Exception):
    """Calls of others that may take all that is left have been out for as long as a slot is held for them."""


async def let_through(attempt: Attempt, call_id: UUID, *, patience: timedelta) -> None:
    """Return when the call may go out; nobody else spends the money of most runs, and then that is at once.

    Raises ``OutOfMoney``, ``StillOut`` after ``patience``, ``HandBack``, ``LostClaim`` and ``TryLater``.
    """
    claim, desk = attempt.claim, attempt.desk
    limit = attempt.limits.max_cost
    if limit <= 0 or not (claim.child is not None or _has_spawned(attempt)):
        return
    root = claim.child.root if claim.child is not None else claim.run
    ends = desk.clock.monotonic() + patience.total_seconds()
    while True:
        purse = await desk.children.let_through(call_id, run=claim.run, root=root, limit=limit)
        attempt.spent_beside = purse.spent_beside
        match purse.leave:
            case "given":
                return
            case "none":
                raise OutOfMoney
            case "lost":
                raise LostClaim(claim.conversation)
        if desk.clock.monotonic() >= ends:
            raise StillOut
        await desk.clock.sleep(LOOK_AGAIN.total_seconds())
        await attempt.before_acting()


def _has_spawned(attempt: Attempt) -> bool:
    """By what it has said, not by the tools that there are now: what was spawned is paid for."""
    calls = [call for said in attempt.said if said["role"] == "assistant" for call in said.get("tool_calls", [])]
    return any(call["name"] == SESSIONS_SPAWN for call in calls)
