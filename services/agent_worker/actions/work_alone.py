"""The whole life of a worker that was started for one conversation, because its run may be poison."""

import os
import signal

from services.agent_worker.actions.take_work import WorkInHand


async def work_alone(conversation: str, hand: WorkInHand) -> None:
    """Work on it and tell this process to end, so that it says goodbye as every worker does.

    It ends as well when the one that started it is gone.
    """
    hand.take(conversation)
    parent = os.getppid()
    while hand.count and os.getppid() == parent:
        await hand.slot()
    signal.raise_signal(signal.SIGTERM)
