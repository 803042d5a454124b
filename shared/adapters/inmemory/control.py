"""Commands to every worker, without a Redis."""

import asyncio
from collections.abc import AsyncIterator

from shared.ports.control import Command


class InMemoryControl:
    """``Control`` of the ports. Whoever is given the same one hears the same, from the time it listens."""

    def __init__(self) -> None:
        self._hearers: set[asyncio.Queue[Command]] = set()

    async def tell(self, command: Command) -> None:
        """See ``Control.tell``."""
        for hearer in self._hearers:
            hearer.put_nowait(command)

    async def hear(self) -> AsyncIterator[Command]:
        """See ``Control.hear``."""
        hearer: asyncio.Queue[Command] = asyncio.Queue()
        self._hearers.add(hearer)
        try:
            while True:
                yield await hearer.get()
        finally:
            self._hearers.discard(hearer)
