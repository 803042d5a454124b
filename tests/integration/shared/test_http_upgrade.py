"""Whoever asks to go on in another protocol is answered in this one, and a body is never read as a request."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from shared.adapters.http.listening import listen
from shared.adapters.http.serve import serving

WITHIN = 10.0

FORGED = b"POST /reset HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n"
"""A body that reads like a request."""

LAST = b"GET /last HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
"""What ends the connection, so that everything which is answered before it is seen."""

WISHES = {
    "h2c": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n",
    "websocket": b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
    "foo": b"upgrade: foo\r\nX-Empty:\r\nconnection: upgrade\r\n",
    "tls": b"Connection: Upgrade\r\nUpgrade: TLS/1.0, HTTP/2.0\r\nUpgrade: bar/2\r\n",
}

BODIES = {
    "length": (b"content-length: %d\r\n" % len(FORGED), FORGED),
    "chunks": (b"transfer-encoding: chunked\r\n", b"%x\r\n" % len(FORGED) + FORGED + b"\r\n0\r\n\r\n"),
}


class _Asked:
    """What the application was asked."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str, bytes]] = []

    async def answer(self, request: Request) -> PlainTextResponse:
        self.all.append((request.method, request.url.path, await request.body()))
        return PlainTextResponse("heard")


@pytest.fixture
def asked() -> _Asked:
    """Empty until the first request."""
    return _Asked()


@pytest.fixture
async def port(asked: _Asked) -> AsyncIterator[int]:
    """A server of ours that takes everything."""
    listener = listen("127.0.0.1", 0)
    routes = [Route(path, asked.answer, methods=["GET", "POST"]) for path in ("/said", "/reset", "/last")]
    async with serving(Starlette(routes=routes), listener, grace_seconds=1):
        yield listener.getsockname()[1]


def _whole(head: bytes, body: bytes) -> Iterator[bytes]:
    yield head + body + LAST


def _head_first(head: bytes, body: bytes) -> Iterator[bytes]:
    yield head
    yield body
    yield LAST


def _within_the_wish(head: bytes, body: bytes) -> Iterator[bytes]:
    at = head.lower().index(b"upgrade:") + 4
    yield head[:at]
    yield head[at:] + body[:7]
    yield body[7:] + LAST[:5]
    yield LAST[5:]


def _byte_by_byte(head: bytes, body: bytes) -> Iterator[bytes]:
    for byte in head + body + LAST:
        yield bytes([byte])


WAYS = {"whole": _whole, "head first": _head_first, "within": _within_the_wish, "bytes": _byte_by_byte}


async def _answers(port: int, pieces: Iterator[bytes]) -> bytes:
    """All that comes back until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    async with asyncio.timeout(WITHIN):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            for _ in range(3):  # the server reads in this same loop
                await asyncio.sleep(0)
        answers = await reader.read()
    writer.close()
    return answers


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("wish", WISHES)
async def test_a_wish_for_another_protocol_costs_no_body(
    port: int, asked: _Asked, wish: str, kind: str, way: str
) -> None:
    """RFC 9110 lets a server ignore it; a body that is left on the line is a request somebody else has made up."""
    length, body = BODIES[kind]
    head = b"POST /said HTTP/1.1\r\nhost: a\r\n" + WISHES[wish] + length + b"\r\n"
    answers = await _answers(port, WAYS[way](head, body))
    assert asked.all == [("POST", "/said", FORGED), ("GET", "/last", b"")]
    assert answers.count(b"HTTP/1.1 ") == answers.count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.parametrize("way", ["whole", "bytes"])
async def test_a_wish_without_a_body_is_answered(port: int, asked: _Asked, way: str) -> None:
    """What follows is the next request, as after any other one."""
    head = b"GET /said HTTP/1.1\r\nhost: a\r\n" + WISHES["websocket"] + b"\r\n"
    await _answers(port, WAYS[way](head, b""))
    assert asked.all == [("GET", "/said", b""), ("GET", "/last", b"")]


async def test_many_wishes_come_in_one_packet(port: int, asked: _Asked) -> None:
    """However many stand in a row, each is read, and in its order."""
    length, body = BODIES["length"]
    one = b"POST /said HTTP/1.1\r\nhost: a\r\n" + WISHES["foo"] + length + b"\r\n" + body
    answers = await _answers(port, iter([one * 1500 + LAST]))
    assert asked.all == [("POST", "/said", FORGED)] * 1500 + [("GET", "/last", b"")]
    assert answers.count(b"HTTP/1.1 200 OK") == 1501


async def test_a_wish_may_stand_behind_another_request(port: int, asked: _Asked) -> None:
    """Where its head ends is counted from the start of the packet."""
    length, body = BODIES["chunks"]
    plain = b"POST /said HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc"
    wish = b"POST /said HTTP/1.1\r\nhost: a\r\n" + WISHES["h2c"] + length + b"\r\n" + body
    await _answers(port, iter([plain + wish + plain + LAST]))
    assert [body for _, _, body in asked.all] == [b"abc", FORGED, b"abc", b""]


@pytest.mark.parametrize(
    "head",
    [
        b"POST /said HTTP/1.0\r\n" + WISHES["foo"],
        b"POST /said HTTP/1.1\r\nhost: a\r\nUpgrade: foo\r\nConnection: close, Upgrade\r\n",
    ],
    ids=["HTTP/1.0", "close"],
)
async def test_who_wants_to_leave_after_a_wish_leaves(port: int, asked: _Asked, head: bytes) -> None:
    """The rest of ``Connection`` means what it says."""
    length, body = BODIES["length"]
    answers = await _answers(port, iter([head + length + b"\r\n", body]))
    assert asked.all == [("POST", "/said", FORGED)]
    assert b"\r\nconnection: close\r\n" in answers


async def test_a_wish_may_wait_for_leave_to_go_on(port: int, asked: _Asked) -> None:
    """curl does so when the body is a large one."""
    length, body = BODIES["length"]
    head = b"POST /said HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\n" + WISHES["h2c"] + length + b"\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    async with asyncio.timeout(WITHIN):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body + LAST)
        assert (await reader.read()).count(b"HTTP/1.1 200 OK") == 2
    assert asked.all[0] == ("POST", "/said", FORGED)
    writer.close()


@pytest.mark.parametrize(
    "head",
    [
        b"CONNECT /said HTTP/1.1\r\nhost: a\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n" + WISHES["foo"],
        b"POST /said HTTP/1.1\r\nhost: a\r\ntransfer-encoding: foo\r\n" + WISHES["foo"],
        b"POST /said HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n" + WISHES["foo"],
        b"POST /said HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n" + WISHES["foo"],
    ],
    ids=["path", "tunnel", "tunnel and wish", "unknown coding", "two lengths", "two times the length"],
)
async def test_what_has_no_certain_end_is_refused(port: int, asked: _Asked, head: bytes) -> None:
    """Nothing that comes after it is read: neither we nor a proxy before us can tell what it is."""
    length, body = BODIES["length"]
    answers = await _answers(port, iter([head + length + b"\r\n" + body + LAST]))
    assert answers.startswith(b"HTTP/1.1 400 ")
    assert answers.endswith(b'\r\n\r\n{"error":"Invalid HTTP request received."}')
    assert answers.count(b"HTTP/1.1 ") == 1
    assert b"\r\nconnection: close\r\n" in answers
    assert asked.all == []


async def test_a_wish_with_too_long_a_head_is_not_answered(port: int, asked: _Asked) -> None:
    """The limit holds for the head as it came."""
    head = b"POST /said HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: " + b"b" * 70_000 + b"\r\n"
    length, body = BODIES["length"]
    try:
        answers = await _answers(port, iter([head + length + b"\r\n" + body + LAST]))
    except ConnectionError:
        answers = b""
    assert (answers, asked.all) == (b"", [])


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("size", [20, 1_500_000])
async def test_curl_may_ask_for_http2(port: int, asked: _Asked, size: int) -> None:
    """``--http2`` is what many scripts say to any server; on a plain connection it is a wish to upgrade."""
    curl = await asyncio.create_subprocess_exec(
        *("curl", "-sS", "--http2", "--max-time", "10", "-w", " %{http_code} %{http_version}", "--data-binary", "@-"),
        f"http://127.0.0.1:{port}/said",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await curl.communicate(b"x" * size)
    assert out == b"heard 200 1.1"
    assert asked.all == [("POST", "/said", b"x" * size)]
