"""How the kernel shares a processor between our processes."""

import contextlib
import os


def let_others_finish(pid: int = 0) -> None:
    """Ask the kernel not to interrupt another process each time this one wakes, but to let it end its turn.

    ``pid``: of another process than this one. To be called before it makes a thread or starts anything: what comes
    later inherits it. Whoever waits for a free processor finds one as before; on a full one each turn is longer,
    carries more, and finds its caches warm.

    ``SCHED_BATCH`` of sched(7); other systems do not know it, and a sandbox may forbid it: then nothing changes.
    """
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))
