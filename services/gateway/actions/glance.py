"""Look at something for everybody who asks within a second: once, however many they are."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Generic, TypeVar

from shared.ports.clock import Clock

FRESH_FOR = timedelta(seconds=1)

Seen = TypeVar("Seen")


class Glance(Generic[Seen]):
    """What ``look`` saw a second ago at most, or why it saw nothing: a store that is away is not asked by each of them
    either."""

    def __init__(self, look: Callable[[], Awaitable[Seen]], clock: Clock) -> None:
        self._look = look
        self._clock = clock
        self._looking: asyncio.Task[Seen] | None = None
        self._until = 0.0

    async def seen(self) -> Seen:
        """What was seen. Raises what ``look`` raises."""
        looking = self._looking
        if looking is None or (looking.done() and self._clock.monotonic() >= self._until):
            self._looking = looking = asyncio.create_task(self._once())
            looking.add_done_callback(_heard)
        return await asyncio.shield(looking)  # who hangs up takes nobody else's answer along

    async def _once(self) -> Seen:
        try:
            return await self._look()
        finally:
            self._until = self._clock.monotonic() + FRESH_FOR.total_seconds()


def _heard(looking: asyncio.Task[Seen]) -> None:
    """Nobody may be left to hear of a failure."""
    if not looking.cancelled():
        looking.exception()
