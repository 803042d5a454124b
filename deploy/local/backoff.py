"""How long a dead child stays dead."""

from datetime import timedelta

FIRST = timedelta(seconds=0.2)
LONGEST = timedelta(seconds=10)
HEALTHY = timedelta(seconds=30)


def next_pause(previous: timedelta | None, lived: timedelta) -> timedelta:
    """Say how long to wait before the next start.

    ``previous`` is the pause before the start that just failed, None for a first start. A child that lived for half a
    minute has earned a fresh beginning.
    """
    if previous is None or lived >= HEALTHY:
        return FIRST
    return min(previous * 2, LONGEST)
