"""How a process is: memory, and how long its event loop keeps others waiting."""

import asyncio
import contextlib
import ctypes
import gc
import resource
import sys
from collections import deque
from datetime import timedelta
from pathlib import Path

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Of glibc's malloc.h."""

_LARGE = 128 * 1024
"""Bytes; what glibc begins with."""

LATELY = 10
"""Probes that ``LoopLag.lately`` looks back on."""

PROBE_EVERY = 1.0
"""Seconds; every process does it, also the idle ones."""

GIVES_BACK_EVERY = timedelta(minutes=1)
"""It takes a few milliseconds for each ten megabytes."""


class LoopLag:
    """Measures how late a sleeping task is woken; a blocked loop shows as a growing figure."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due: float | None = None
        self._lags: deque[float] = deque([0.0], maxlen=LATELY)

    async def watch(self) -> None:
        """Measure until cancelled."""
        loop = self._loop = asyncio.get_running_loop()
        while True:
            self._due = loop.time() + PROBE_EVERY
            await asyncio.sleep(PROBE_EVERY)
            self._lags.append(max(0.0, loop.time() - self._due))

    @property
    def last(self) -> timedelta:
        """The lag measured last."""
        return timedelta(seconds=self._lags[-1])

    @property
    def lately(self) -> timedelta:
        """The longest lag of the last ten seconds, with the one that is under way: whoever asks a loop that was blocked
        is answered when it turns again."""
        late = self._loop.time() - self._due if self._loop is not None and self._due is not None else 0.0
        return timedelta(seconds=max(*self._lags, late))


def resident_bytes() -> int:
    """Resident memory of this process now; where the system does not tell, its peak."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * resource.getpagesize()


def allow_many_files() -> None:
    """Raise how many files and connections this process may have open as far as the system lets it by itself: what is
    usual (1,024) is less than the streams that a gateway may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # on macOS "unlimited" is more than there can be
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def keep_heaps_few() -> None:
    """Have the C library keep one heap for all threads, and give large blocks back at once; to be called before any
    thread is started. Does nothing where it can't.

    By itself glibc gives each thread a heap of its own, and lets freed blocks of up to 32 MB stay in them once it has
    seen some: over hours they fill with holes (mallopt(3): M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD).
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        for option, value in ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, _LARGE)):
            library.mallopt(option, value)


def give_memory_back() -> None:
    """Have the system take back what this process has freed; does nothing where the C library can't. Takes up to some
    hundred milliseconds."""
    gc.collect()
    _trim()


async def keep_small() -> None:
    """Give what was freed back to the system once a minute, until cancelled.

    Measured on workers under a mixed load: what lives on between what was freed kept 9 MB of 31 after twenty minutes.
    """
    while True:
        await asyncio.sleep(GIVES_BACK_EVERY.total_seconds())
        _trim()


def _trim() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
