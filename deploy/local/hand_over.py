"""Follow one process of a service by the next one, without a moment in which there is none."""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from deploy.local.child import Child
from deploy.local.keeper import Keeper

READY_WITHIN = timedelta(seconds=30)
_LOOK = 0.05

IsReady = Callable[[Child], bool]


class NotFollowed(Exception):
    """The new process is not fit to follow, and the old one goes on; ``sentences`` say why."""

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = sentences


def hand_over(
    keeper: Keeper, is_ready: IsReady, meanwhile: Callable[[], None], *, within: timedelta = READY_WITHIN
) -> float:
    """Start the next process, wait until it is ready, then end the one before it; how many seconds that took.

    ``meanwhile`` is called again and again. Raises ``NotFollowed``; the old process has heard nothing of it then.
    """
    began = time.monotonic()
    child = keeper.start_successor()
    try:
        while not is_ready(child):
            if child.exit_code() is not None:
                raise NotFollowed(keeper.last_words(f"ended with exit code {child.exit_code()}"))
            if time.monotonic() - began >= within.total_seconds():
                raise NotFollowed(keeper.last_words(f"was not ready within {within.total_seconds():g} s"))
            meanwhile()
            time.sleep(_LOOK)
    except NotFollowed:
        keeper.drop_successor()
        raise
    keeper.promote_successor()
    while not keeper.predecessor_is_gone():
        meanwhile()
        time.sleep(_LOOK)
    return time.monotonic() - began
