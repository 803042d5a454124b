"""A clock that stands still until a test moves it."""

import asyncio
from datetime import UTC, datetime, timedelta

START = datetime(2026, 5, 21, 21, 33, tzinfo=UTC)


class ManualClock:
    """``Clock`` of the ports. Whoever sleeps moves the time on by as much and waits for nothing else."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._seconds = 0.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        """See ``Clock.now``."""
        return self._start + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        """See ``Clock.monotonic``."""
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        """See ``Clock.sleep``; everybody else has a turn."""
        self.slept.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        """Let this much time pass."""
        self._seconds += seconds
