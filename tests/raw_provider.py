"""A provider made of a bare socket: it answers with exactly the bytes it is told, whole or piece by piece."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

CLOSE = b"<close>"
"""In place of a piece: close the connection."""

RESET = b"<reset>"
"""In place of a piece: cut it."""

Pieces = Sequence[bytes | float]
"""What is sent in turn; a number is a pause in seconds."""


@dataclass
class RawProvider:
    """``answers`` are given to requests in their order, the last one for ever. ``requests`` is what was asked."""

    answers: list[Pieces] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    port: int = 0
    choose: Callable[[bytes], Pieces] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_connections += 1
        try:
            while request := await _request(reader):
                self.requests.append(request)
                if self.choose is not None:
                    pieces = self.choose(request)
                else:
                    pieces = self.answers[min(len(self.requests), len(self.answers)) - 1]
                if not await _answer(pieces, writer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            self.open_connections -= 1
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()

    async def sees(self, what: Callable[["RawProvider"], bool]) -> None:
        """Wait until that is so."""
        async with asyncio.timeout(5):
            while not what(self):
                await asyncio.sleep(0.005)


async def _request(reader: asyncio.StreamReader) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    return head + (await reader.readexactly(int(length)) if length else b"")


async def _answer(pieces: Pieces, writer: asyncio.StreamWriter) -> bool:
    for piece in pieces:
        if isinstance(piece, float | int):
            await asyncio.sleep(piece)
        elif piece == CLOSE:
            return False
        elif piece == RESET:
            writer.transport.abort()
            return False
        else:
            writer.write(piece)
            await writer.drain()
    return True


@contextlib.asynccontextmanager
async def raw_provider(
    *answers: Pieces, tls: ssl.SSLContext | None = None, choose: Callable[[bytes], Pieces] | None = None
) -> AsyncIterator[RawProvider]:
    """Serve on a free port; whoever is still connected at the end is cut."""
    provider = RawProvider(list(answers), choose=choose)
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        with contextlib.suppress(asyncio.CancelledError):
            await provider.serve(reader, writer)
        serving.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls, limit=1 << 20)
    provider.port = server.sockets[0].getsockname()[1]
    try:
        yield provider
    finally:
        server.close()
        for task in list(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


def chunked(*parts: bytes) -> bytes:
    """A body in chunks, with its end."""
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def with_length(body: bytes, *, status: bytes = b"200 OK", headers: bytes = b"") -> bytes:
    """A whole answer with its length."""
    return b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n%b" % (status, headers, len(body), body)
