"""A server that leaves: whoever is connected has one more answer, and nobody is cut off in the middle."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from shared.adapters.http.listening import GIVEN, given_listener, listen
from shared.adapters.http.serve import Door, serving
from shared.errors import ConfigError

GRACE = timedelta(seconds=0.4)
LONG = timedelta(seconds=5)


class Line:
    """One kept-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def ask(self, path: str) -> None:
        self.writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())

    async def answer(self) -> tuple[bytes, bytes]:
        """Head and body; empty ones when the connection was closed."""
        async with asyncio.timeout(5):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            return head.lower(), await self.reader.readexactly(length)

    async def is_closed(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                return await self.reader.read(1) == b""
        return False


Connect = Callable[[socket.socket], Awaitable[Line]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    lines = []

    async def open_line(listener: socket.socket) -> Line:
        lines.append(Line(*await asyncio.open_connection(*listener.getsockname()[:2])))
        return lines[-1]

    yield open_line
    for line in lines:
        line.writer.close()
        with contextlib.suppress(OSError):
            await line.writer.wait_closed()


async def _quick(_: Request) -> Response:
    return PlainTextResponse("quick")


async def _slow(_: Request) -> Response:
    await asyncio.sleep(0.6)
    return PlainTextResponse("slow")


@pytest.fixture
def listener() -> socket.socket:
    return listen("127.0.0.1", 0)


@pytest.fixture
async def door(listener: socket.socket) -> AsyncIterator[Door]:
    app = Starlette(routes=[Route("/quick", _quick), Route("/slow", _slow)])
    async with serving(app, listener, grace_seconds=1, idle_grace=GRACE) as opened:
        yield opened


async def test_a_request_on_an_idle_connection_is_answered_with_the_goodbye(
    door: Door, listener: socket.socket, connect: Connect
) -> None:
    """A pool of connections must not find them cut off while a request is on its way."""
    line = await connect(listener)
    line.ask("/quick")
    head, _ = await line.answer()
    assert b"connection: close" not in head
    door.take_no_more()
    leaving = asyncio.ensure_future(door.empty(LONG))
    await asyncio.sleep(0.1)
    assert not await line.is_closed()
    line.ask("/quick")
    head, body = await line.answer()
    assert (b"connection: close" in head, body) == (True, b"quick")
    assert await line.is_closed()
    assert await leaving


async def test_an_open_request_is_answered_and_idle_connections_go_after_the_grace(
    door: Door, listener: socket.socket, connect: Connect
) -> None:
    """Also one that has not asked anything yet."""
    busy, idle, fresh = await connect(listener), await connect(listener), await connect(listener)
    idle.ask("/quick")
    await idle.answer()
    busy.ask("/slow")
    await asyncio.sleep(0.05)
    door.take_no_more()
    leaving = asyncio.ensure_future(door.empty(LONG))
    await asyncio.sleep(GRACE.total_seconds() / 2)
    assert not await idle.is_closed()
    assert not await fresh.is_closed()
    await asyncio.sleep(GRACE.total_seconds() / 2 + 0.1)
    assert await idle.is_closed()
    assert await fresh.is_closed()
    head, body = await busy.answer()
    assert (b"connection: close" in head, body) == (True, b"slow")
    assert await leaving


async def test_who_holds_the_socket_too_goes_on_with_those_who_wait(
    door: Door, listener: socket.socket, connect: Connect
) -> None:
    """That is how one gateway follows another without a refused connection."""
    with socket.socket(fileno=os.dup(listener.fileno())) as kept:
        door.take_no_more()
        await asyncio.sleep(0.05)
        line = await connect(kept)
        line.ask("/quick")
        await asyncio.sleep(0.1)
        assert await door.empty(timedelta(0))
        given = given_listener({GIVEN: str(os.dup(kept.fileno()))})
        assert given is not None
        async with serving(Starlette(routes=[Route("/quick", _quick)]), given):
            assert (await line.answer())[1] == b"quick"


async def test_a_door_that_is_still_full_says_so(door: Door, listener: socket.socket, connect: Connect) -> None:
    """Whoever waits for too long must be told something before the end."""
    line = await connect(listener)
    line.ask("/slow")
    await asyncio.sleep(0.05)
    door.take_no_more()
    assert not await door.empty(timedelta(seconds=0.1))
    assert await door.empty(LONG)
    assert (await line.answer())[1] == b"slow"


def test_a_descriptor_that_is_no_listening_socket_is_one_sentence() -> None:
    """A mistake in a unit file, most likely."""
    assert given_listener({}) is None
    assert given_listener({"LISTEN_FDS": "1", "LISTEN_PID": "1"}) is None
    for number in ("9999", "-5", "socket"):
        with pytest.raises(ConfigError, match=GIVEN):
            given_listener({GIVEN: number})
    left, right = socket.socketpair()
    with right, pytest.raises(ConfigError, match="does not listen"):
        given_listener({GIVEN: str(left.detach())})
