"""Connections to one provider, kept while they may be used again."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

import httpx2

from shared.adapters.models.dial import Address, dial
from shared.adapters.models.http_line import HttpLine

KEPT_FOR = timedelta(seconds=4)
"""How long an idle connection is kept: many servers close after five, and a request must not cross their close."""

_CLOSED_WITHIN = 1.0


class LinePool:
    """As many lines as there are calls under way, and those that were; it sets no limit, the caller's slots do.

    An idle line that the provider closes leaves by itself. The one used last is used next, so that surplus ones age.
    """

    def __init__(self, address: Address, *, kept_for: timedelta = KEPT_FOR) -> None:
        self._address = address
        self._kept_for = kept_for.total_seconds()
        self._loop = asyncio.get_running_loop()
        self._idle: deque[HttpLine] = deque()
        self._open: set[HttpLine] = set()
        self._all_gone = asyncio.Event()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def idle(self) -> int:
        """How many lines wait for a call."""
        return len(self._idle)

    async def ask(self, request: bytes) -> HttpLine:
        """Send a request on a line of its own; the line when the head of the answer is there.

        Raises ``httpx2.TransportError``; a request that failed is never sent again here. Cancelling closes the line.
        """
        line = self._take() or await self._dial()
        try:
            await line.ask(request)
        except BaseException:
            line.close()
            raise
        return line

    async def aclose(self) -> None:
        """Close every line, those in use too."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for line in list(self._open):
            line.close()
        if self._open:
            self._all_gone.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), _CLOSED_WITHIN)

    def _take(self) -> HttpLine | None:
        oldest = self._loop.time() - self._kept_for
        while self._idle:
            line = self._idle.pop()
            if line.idle_since > oldest and line.is_open:
                return line
            line.close()
        return None

    async def _dial(self) -> HttpLine:
        line = await dial(self._address, lambda: HttpLine(idle=self._keep, gone=self._lose))
        if self._closed:
            line.close()
            raise httpx2.ConnectError("the pool was closed")
        if line.is_connected:
            self._open.add(line)
        return line

    def _keep(self, line: HttpLine) -> None:
        if self._closed:
            line.close()
            return
        self._idle.append(line)
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._kept_for, self._close_old)

    def _lose(self, line: HttpLine) -> None:
        self._open.discard(line)
        with suppress(ValueError):
            self._idle.remove(line)
        if not self._open:
            self._all_gone.set()

    def _close_old(self) -> None:
        now = self._loop.time()
        while self._idle and self._idle[0].idle_since <= now - self._kept_for:
            self._idle.popleft().close()
        left = self._idle[0].idle_since + self._kept_for - now if self._idle else None
        self._sweep = None if left is None else self._loop.call_later(left, self._close_old)


@asynccontextmanager
async def open_lines(address: Address, *, kept_for: timedelta = KEPT_FOR) -> AsyncIterator[LinePool]:
    """A pool, closed on leaving. Nothing is connected before it is needed."""
    pool = LinePool(address, kept_for=kept_for)
    try:
        yield pool
    finally:
        await pool.aclose()
