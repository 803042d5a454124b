"""Do what is told over the control stream, and what of it was missed, by asking Postgres."""

import structlog

from services.agent_worker.actions.take_work import WorkInHand
from shared.ports.control import Control
from shared.ports.runs import Runs

log = structlog.get_logger(__name__)


async def heed_control(control: Control, hand: WorkInHand) -> None:
    """Stop what is to be stopped, as it is told, until cancelled."""
    async for command in control.hear():
        hand.stop_run(command.conversation, command.run, command.reason)


async def stop_cancelled(runs: Runs, hand: WorkInHand) -> None:
    """Stop what was asked to stop while nobody heard it. Raises ``TryLater``."""
    held = hand.epochs
    if not held:
        return
    for conversation, reason in (await runs.cancels(held)).items():
        hand.stop(conversation, held[conversation], reason)
