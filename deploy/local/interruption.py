"""Signals: Ctrl-C and its kin ask for an orderly end, and others for a restart of the services."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType

# `make` passes on a signal that the whole group got already: twice in an instant is one wish.
_ONE_WISH = timedelta(seconds=0.5)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

RESTART = signal.SIGUSR1
"""Asks for a restart without a doubt; SIGHUP does too for a launcher that was started without a terminal. With
one it is the goodbye of a window or a shell, and some shells say it while the terminal is still there."""


class StopAsked(BaseException):
    """Somebody wants the launcher to end. Not an Exception, so that nothing on the way takes it for a fault."""


@contextmanager
def stop_on_signals(at_once: Callable[[], None], *, restart: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Raise StopAsked in the block at the first signal; at the second call ``at_once`` and leave without a word.

    What is tethered ends by itself when this process is gone, so leaving at once leaves nothing behind. ``restart`` is
    called for each signal that asks for one; it runs between any two instructions of the block and must only take note.
    """
    asked: float | None = None
    had_terminal = _has_terminal()

    def answer(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if number == signal.SIGHUP and asked is None and not had_terminal:
            restart()
            return
        now = time.monotonic()
        if asked is None:
            asked = now
            raise StopAsked
        if now - asked > _ONE_WISH.total_seconds():
            at_once()
            os._exit(128 + number)

    before = {number: signal.getsignal(number) for number in (*_SIGNALS, RESTART)}
    for number in _SIGNALS:
        if before[number] is not signal.SIG_IGN:  # nohup wants the hang-up ignored
            signal.signal(number, answer)
    signal.signal(RESTART, lambda *_: restart())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _has_terminal() -> bool:
    """Whether this process belongs to a terminal."""
    with suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
        return True
    return False
