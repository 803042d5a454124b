"""Takes webhooks and says thank you."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import cast

from bench.http_line import content_length

_THANKS = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Letterbox:
    """``count`` is how many came, over all connections."""

    def __init__(self) -> None:
        self.count = 0

    def connection(self) -> asyncio.Protocol:
        """A protocol for one connection."""
        return _Connection(self)


class _Connection(asyncio.Protocol):
    def __init__(self, box: Letterbox) -> None:
        self._box = box
        self._held = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)  # uvloop's is none by its type

    def data_received(self, data: bytes) -> None:
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            whole = end + 4 + content_length(self._held[:end])
            if len(self._held) < whole:
                return
            self._held = self._held[whole:]
            self._box.count += 1
            if self._transport is not None:
                self._transport.write(_THANKS)


@contextlib.asynccontextmanager
async def open_letterbox(port: int) -> AsyncIterator[Letterbox]:
    """Listen on 127.0.0.1 until the block ends."""
    box = Letterbox()
    server = await asyncio.get_running_loop().create_server(box.connection, "127.0.0.1", port)
    try:
        yield box
    finally:
        server.close()
