"""The clock of the machine."""

import asyncio
import time
from datetime import UTC, datetime


class SystemClock:
    """``Clock`` of the ports."""

    def now(self) -> datetime:
        """See ``Clock.now``."""
        return datetime.now(UTC)  # noqa: TID251 - this is the Clock

    def monotonic(self) -> float:
        """See ``Clock.monotonic``."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """See ``Clock.sleep``."""
        await asyncio.sleep(seconds)
