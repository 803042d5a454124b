"""Ctrl-C and its kin: the first asks for an orderly end, the second is not asked twice."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType

# `make` passes on a signal that the whole group got already: twice in an instant is one wish.
_ONE_WISH = timedelta(seconds=0.5)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopAsked(BaseException):
    """Somebody wants the launcher to end. Not an Exception, so that nothing on the way takes it for a fault."""


@contextmanager
def stop_on_signals(at_once: Callable[[], None]) -> Iterator[None]:
    """Raise StopAsked in the block at the first signal; at the second call ``at_once`` and leave without a word.

    What is tethered ends by itself when this process is gone, so leaving at once leaves nothing behind.
    """
    asked: float | None = None

    def answer(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        now = time.monotonic()
        if asked is None:
            asked = now
            raise StopAsked
        if now - asked > _ONE_WISH.total_seconds():
            at_once()
            os._exit(128 + number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        if before[number] is not signal.SIG_IGN:  # nohup wants the hang-up ignored
            signal.signal(number, answer)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
