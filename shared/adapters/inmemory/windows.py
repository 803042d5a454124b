"""Sliding windows of this process alone."""

from collections import OrderedDict, deque
from datetime import timedelta

from shared.ports.clock import Clock
from shared.ports.windows import Place

MOST_WINDOWS = 10_000


class InMemoryWindows:
    """``Windows`` of the ports. Of more than ``most`` windows those are forgotten that were asked for longest ago."""

    def __init__(self, clock: Clock, *, most: int = MOST_WINDOWS) -> None:
        self._clock = clock
        self._most = most
        self._windows: OrderedDict[str, deque[float]] = OrderedDict()

    async def take(self, name: str, *, limit: int, per: timedelta) -> Place:
        """See ``Windows.take``; raises nothing."""
        now, length = self._clock.monotonic(), per.total_seconds()
        window = self._windows.get(name)
        if window is None:
            window = self._windows[name] = deque()
            if len(self._windows) > self._most:
                self._windows.popitem(last=False)
        self._windows.move_to_end(name)
        while window and window[0] <= now - length:
            window.popleft()
        taken = len(window) < limit
        if taken:
            window.append(now)
        frees_in = window[0] + length - now if window else length
        return Place(taken, max(0, limit - len(window)), timedelta(seconds=frees_in))
