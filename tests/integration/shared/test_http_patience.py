"""Whoever keeps a server waiting is cut off after a while, and only they are."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from shared.adapters.http.listening import listen
from shared.adapters.http.patience import Patience
from shared.adapters.http.serve import serving

SHORT = timedelta(seconds=0.5)
CUT_WITHIN = 5.0
"""It is looked once a second."""

PIECE = b"x" * 65_536


async def _quick(_: Request) -> PlainTextResponse:
    return PlainTextResponse("quick")


async def _unread(_: Request) -> PlainTextResponse:
    return PlainTextResponse("refused", 401)


async def _whole(request: Request) -> PlainTextResponse:
    async for _ in request.stream():
        pass
    return PlainTextResponse("read")


class _Follows:
    """A stream with signs of life; ``ended`` once it knows that its client has gone."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        self.begun.set()
        gone = asyncio.create_task(self._until_gone(receive))
        while not gone.done():
            await send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
            await asyncio.sleep(0.05)
        self.ended.set()

    @staticmethod
    async def _until_gone(receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass


FOLLOWS = "/follows"


async def _large(_: Request) -> PlainTextResponse:
    return PlainTextResponse("x" * 1_500_000)


async def _endless(_: Request) -> StreamingResponse:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield PIECE
            await asyncio.sleep(0)

    return StreamingResponse(pieces())


@pytest.fixture
async def follows() -> _Follows:
    """What ``FOLLOWS`` answers."""
    return _Follows()


@pytest.fixture
async def port(follows: _Follows) -> AsyncIterator[int]:
    """A server that does not wait for long."""
    listener = listen("127.0.0.1", 0)
    routes = [
        Route("/quick", _quick),
        Route("/endless", _endless),
        Route("/unread", _unread, methods=["POST"]),
        Route("/whole", _whole, methods=["POST"]),
        Route("/large", _large),
        Route(FOLLOWS, follows),
    ]
    patience = Patience(head=SHORT, first=SHORT, reader=SHORT)
    async with serving(Starlette(routes=routes), listener, grace_seconds=1, patience=patience):
        yield listener.getsockname()[1]


async def _is_cut(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(CUT_WITHIN):
        try:
            return await reader.read(1) == b""
        except ConnectionResetError:
            return True


@pytest.mark.parametrize("said", [b"", b"GET /quick HT", b"GET /quick HTTP/1.1\r\nhost: here\r\nx-slow: 1"])
async def test_a_request_that_does_not_go_on_is_cut_off(port: int, said: bytes) -> None:
    """A head that trickles would hold its connection for ever."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    assert await _is_cut(reader)
    writer.close()


@contextlib.asynccontextmanager
async def _asked(port: int, said: bytes, *, window: int) -> AsyncIterator[socket.socket]:
    """A client that has asked for something and takes so many bytes unread."""
    loop = asyncio.get_running_loop()
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        slow.setblocking(False)
        await loop.sock_connect(slow, ("127.0.0.1", port))
        await loop.sock_sendall(slow, said)
        yield slow


async def test_a_client_that_does_not_read_is_cut_off(port: int) -> None:
    """It finds what the kernel held for it, and then the end in the middle of a body that says it goes on."""
    loop = asyncio.get_running_loop()
    async with _asked(port, b"GET /endless HTTP/1.1\r\nhost: here\r\n\r\n", window=4096) as slow:
        await asyncio.sleep(2.5)
        held, last = 0, b""
        async with asyncio.timeout(CUT_WITHIN):
            while piece := await loop.sock_recv(slow, 1 << 20):
                held, last = held + len(piece), piece
    assert held < 1_000_000
    assert not last.endswith(b"0\r\n\r\n")


async def test_a_connection_that_waits_between_two_requests_stays(port: int) -> None:
    """A browser keeps it for the next one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(2):
        writer.write(b"GET /quick HTTP/1.1\r\nhost: here\r\n\r\n")
        async with asyncio.timeout(CUT_WITHIN):
            assert (await reader.readuntil(b"quick")).startswith(b"HTTP/1.1 200")
        await asyncio.sleep(2)
    writer.close()


@pytest.mark.parametrize(
    "said",
    [
        b"GET /",
        b"GET /quick HTTP/1.1\r\n",
        b"GET /quick HTTP/1.1\r\nhost: ",
        b"POST /whole HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n",
        b"POST /unread HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n",
    ],
    ids=["path", "headers", "one header", "headers after the body", "headers after the answer"],
)
async def test_a_head_without_end_is_not_kept(port: int, said: bytes) -> None:
    """In the ten seconds of a head a client sends gigabytes, and needs no token for it."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    line = (b"" if said.endswith((b"/", b": ")) else b"a: ") + b"b" * 1000
    line += b"" if said.endswith((b"/", b": ")) else b"\r\n"
    sent = 0
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(CUT_WITHIN):
            while sent < 20_000_000:
                writer.write(line * 10)
                await writer.drain()
                sent += len(line) * 10
    assert sent < 10_000_000  # what lay in the buffers of the kernel counts
    writer.close()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /quick HTTP/1.1\r\nx-long: " + b"b" * 70_000 + b"\r\n\r\n",
        b"GET /quick HTTP/1.1\r\n" + b"x-many: bbbb\r\n" * 7_000 + b"\r\n",
        b"GET /quick?" + b"b" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /whole HTTP/1.1\r\ncontent-length: 1\r\nx-long: " + b"b" * 70_000 + b"\r\n\r\nx",
        b"GET /quick HTTP/1.1\r\nx-long: " + b"b" * 70_000 + b"\r\n\r\nGET /quick HTTP/1.1\r\n\r\n",
    ],
    ids=["one header", "many headers", "path", "a body behind it", "a request behind it"],
)
async def test_a_head_that_is_too_long_is_not_read_either_when_it_comes_at_once(port: int, head: bytes) -> None:
    """The limit that is promised holds however quick the client is; whoever reads the head need not be wary of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    assert await _is_cut(reader)
    writer.close()


@pytest.mark.parametrize(
    ("asked", "more"),
    [
        (b"GET /quick HTTP/1.1\r\nhost: a\r\n\r\n", b"\r\n"),
        (b"POST /unread HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n", b"x"),
    ],
    ids=["a line break", "the body of a refused request"],
)
async def test_what_trickles_after_an_answer_holds_no_connection(port: int, asked: bytes, more: bytes) -> None:
    """The timer between two requests ends with the first byte that comes, also when that begins no request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(asked)
    assert (await reader.readline()).startswith(b"HTTP/1.1 ")
    await asyncio.sleep(0.1)
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(CUT_WITHIN):
            while not reader.at_eof():
                writer.write(more)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        while await reader.read(65_536):
                            pass
    writer.close()


async def test_who_hangs_up_ends_also_a_request_that_another_one_stands_behind(port: int, follows: _Follows) -> None:
    """Else a stream goes on for nobody, and keeps its seat for as long as its run goes on."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /follows HTTP/1.1\r\nhost: a\r\n\r\n")
    await follows.begun.wait()
    writer.write(b"GET /quick HTTP/1.1\r\nhost: a\r\n\r\n")
    await asyncio.sleep(0.1)
    writer.transport.abort()
    async with asyncio.timeout(CUT_WITHIN):
        await follows.ended.wait()


async def test_a_long_answer_that_nobody_reads_is_not_kept(port: int) -> None:
    """Its length gives time to who reads, and to nobody else: it lies in memory meanwhile."""
    loop = asyncio.get_running_loop()
    async with _asked(port, b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n", window=4096) as slow:
        await asyncio.sleep(CUT_WITHIN)
        held = 0
        async with asyncio.timeout(CUT_WITHIN):
            with contextlib.suppress(ConnectionResetError):
                while piece := await loop.sock_recv(slow, 1 << 20):
                    held += len(piece)
    assert held < 1_000_000


async def test_a_long_answer_may_take_longer(port: int) -> None:
    """A history of megabytes over a slow line is read all the time, and must come to its end."""
    loop = asyncio.get_running_loop()
    async with _asked(port, b"GET /large HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", window=16_384) as slow:
        held = 0
        while piece := await loop.sock_recv(slow, 16_384):
            held += len(piece)
            await asyncio.sleep(0.04)
    assert held > 1_500_000
