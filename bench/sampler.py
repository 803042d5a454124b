"""A process that looks at itself: where its main thread is, each time some CPU time was used.

Nothing has to be installed and no rights are needed, and unlike a tracing profiler it does not make small functions
look dear. Work of compiled code is counted for the Python line that called it.
"""

import signal
from collections import Counter
from pathlib import Path
from types import FrameType

import orjson

EVERY = 0.004
"""Seconds of CPU time of the whole process; the kernel's own tick is hardly finer."""


class Sampler:
    """Starts at SIGUSR1. ``own`` counts lines (file, function, line), ``with_callees`` functions (file, function)."""

    def __init__(self) -> None:
        self.own: Counter[tuple[str, str, int]] = Counter()
        self.with_callees: Counter[tuple[str, str]] = Counter()

    def listen(self) -> None:
        """Wait for the signal, without doing anything until it comes."""
        signal.signal(signal.SIGPROF, self._look)
        signal.signal(signal.SIGUSR1, lambda *_: signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY))

    def _look(self, _number: int, frame: FrameType | None) -> None:
        if frame is None:
            return
        code = frame.f_code
        self.own[code.co_filename, code.co_qualname, frame.f_lineno or 0] += 1  # some code has no line
        seen: set[tuple[str, str]] = set()
        at: FrameType | None = frame
        while at is not None:
            seen.add((at.f_code.co_filename, at.f_code.co_qualname))
            at = at.f_back
        self.with_callees.update(seen)

    def write(self, file: Path) -> None:
        """Stop, and leave what was seen as JSON."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        own = [[*place, count] for place, count in self.own.items()]
        with_callees = [[*place, count] for place, count in self.with_callees.items()]
        file.write_bytes(orjson.dumps({"own": own, "with_callees": with_callees}))
