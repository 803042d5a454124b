"""The whole work of a process that was started for one conversation, because its run may be poison."""

from collections.abc import Callable

from services.agent_worker.actions.take_work import WorkInHand


async def work_alone(conversation: str, hand: WorkInHand, *, is_wanted: Callable[[], bool]) -> None:
    """Work on it until nothing is left, or until the one that asked for it is gone."""
    hand.take(conversation)
    while hand.count and is_wanted():
        await hand.slot()
