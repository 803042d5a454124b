"""Connections to a provider over real sockets, on asyncio's own loop and on uvloop, which the services use."""

import asyncio
import contextlib
import gc
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from shared.adapters.models import http_line
from shared.adapters.models.dial import Address, dial
from shared.adapters.models.http_line import HttpLine
from shared.adapters.models.line_pool import KEPT_FOR, LinePool, open_lines
from tests.both_loops import on_both_loops
from tests.raw_provider import CLOSE, RESET, Pieces, RawProvider, chunked, raw_provider, with_length

REQUEST = b"POST /v1 HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Asking:
    """A pool and the provider behind it."""

    def __init__(self, provider: RawProvider, pool: LinePool) -> None:
        self.provider = provider
        self.pool = pool

    async def ask(self, *, finished: bool = True) -> bytes:
        """One whole call: the body."""
        line = await self.pool.ask(REQUEST)
        pieces = []
        try:
            while piece := await line.read():
                pieces.append(piece)
        finally:
            await line.let_go(finished=finished)
        return b"".join(pieces)


@contextlib.asynccontextmanager
async def asking(*answers: Pieces) -> AsyncIterator[Asking]:
    async with raw_provider(*answers) as provider, open_lines(Address("127.0.0.1", provider.port)) as pool:
        yield Asking(provider, pool)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (CHUNKED + chunked(b"one ", b"two ", b"three"), b"one two three"),
        (with_length(b"whole"), b"whole"),
        (with_length(b""), b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + with_length(b"late"), b"late"),
        (CHUNKED + b"3;why=not\r\nabc\r\n0\r\nX-Trailer: yes\r\n\r\n", b"abc"),
        (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok".replace(b"\n", b"\r\n"), b"ok"),
    ],
    ids=["chunked", "with length", "empty", "after interim answers", "with extensions and trailers", "other case"],
)
@on_both_loops
async def test_an_answer_is_the_same_however_the_network_cuts_it(answer: bytes, body: bytes) -> None:
    """Every byte may be the last one of a packet; whatever the cut, the line serves the next call too."""
    for cut in range(1, len(answer)):
        kept: list[HttpLine] = []
        line = HttpLine(idle=kept.append)
        wire = FakeWire()
        line.connection_made(wire)
        for _ in range(2):
            asked = asyncio.create_task(line.ask(REQUEST))
            await asyncio.sleep(0)
            line.data_received(answer[:cut])
            await asyncio.sleep(0)
            line.data_received(answer[cut:])
            await asked
            heard = b""
            while piece := await line.read():
                heard += piece
            assert heard == body
            await line.let_go(finished=True)
        assert kept == [line, line]
        assert not wire.closed


@on_both_loops
async def test_what_follows_a_body_does_not_change_what_was_said_before_it() -> None:
    """A trailer that says gzip would have an answer unpacked that nobody has packed."""
    trailer = b"2\r\nok\r\n0\r\ncontent-encoding: gzip\r\nretry-after: 9999\r\n\r\n"
    async with asking([CHUNKED + trailer]) as story:
        line = await story.pool.ask(REQUEST)
        assert await line.read() == b"ok"
        assert dict(line.headers) == {"transfer-encoding": "chunked"}
        await line.let_go(finished=True)
        assert await story.ask() == b"ok"
        assert story.provider.connections == 1


@on_both_loops
async def test_byte_by_byte_over_a_socket() -> None:
    answer = CHUNKED + chunked(b"data: 1\n\n", b"data: 2\n\n")
    async with asking([part for byte in answer for part in (bytes([byte]), 0.0)]) as story:
        assert await story.ask() == b"data: 1\n\ndata: 2\n\n"
        assert await story.ask() == b"data: 1\n\ndata: 2\n\n"
        assert story.provider.connections == 1


@on_both_loops
async def test_two_hundred_calls_at_once_have_two_hundred_lines_and_keep_them() -> None:
    """A worker's slots are the only limit; what the pool forgets between two rounds is a handshake for each call."""
    async with asking([0.05, with_length(b"x")]) as story:
        for _ in range(3):
            assert await asyncio.gather(*(story.ask() for _ in range(200))) == [b"x"] * 200
        assert story.provider.connections == 200
        assert story.pool.idle == 200


@on_both_loops
async def test_a_line_that_the_provider_closes_after_its_answer_is_not_used_again() -> None:
    async with asking([with_length(b"bye", headers=b"connection: close\r\n")]) as story:
        assert await story.ask() == b"bye"
        assert story.pool.idle == 0
        assert await story.ask() == b"bye"
        assert story.provider.connections == 2


@on_both_loops
async def test_a_line_closed_while_idle_is_noticed_before_it_is_used() -> None:
    """Without that each pause of a conversation would end in a lost connection and a call made twice."""
    async with asking([with_length(b"one"), CLOSE], [with_length(b"two")]) as story:
        assert await story.ask() == b"one"
        await story.provider.sees(lambda provider: provider.open_connections == 0)
        assert await story.ask() == b"two"
        assert story.provider.connections == 2


@on_both_loops
async def test_a_line_closed_while_the_loop_was_busy_is_noticed_too() -> None:
    """The end of the connection waits in the kernel then, and nobody has told the line."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with open_lines(Address("127.0.0.1", listening.getsockname()[1])) as pool:
            call = asyncio.create_task(pool.ask(REQUEST))
            listening.settimeout(5)
            await asyncio.sleep(0.1)
            served, _ = listening.accept()
            served.sendall(with_length(b""))
            line = await call
            await line.let_go(finished=True)
            assert line.is_open
            served.close()
            time.sleep(0.05)
            assert line.is_connected
            assert not line.is_open


@on_both_loops
async def test_a_line_is_not_kept_for_ever() -> None:
    """Servers close what was idle for five seconds; a request must not cross their close."""
    assert timedelta(seconds=5) > KEPT_FOR
    async with (
        raw_provider([with_length(b"x")]) as provider,
        open_lines(Address("127.0.0.1", provider.port), kept_for=timedelta(seconds=0.4)) as pool,
    ):
        story = Asking(provider, pool)
        await asyncio.gather(*(story.ask() for _ in range(3)))
        await asyncio.sleep(0.2)
        await story.ask()
        await asyncio.sleep(0.3)
        assert pool.idle == 1
        await provider.sees(lambda provider: provider.open_connections == 1)
        await asyncio.sleep(0.3)
        assert pool.idle == 0


@pytest.mark.parametrize(
    ("pieces", "fault"),
    [
        ([CLOSE], httpx2.RemoteProtocolError),
        ([RESET], httpx2.TransportError),
        ([b"HTTP/1.1 200 OK\r\ncontent-le", CLOSE], httpx2.RemoteProtocolError),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", CLOSE], httpx2.RemoteProtocolError),
        ([CHUNKED + b"5\r\nhal", CLOSE], httpx2.RemoteProtocolError),
        ([CHUNKED + b"4\r\nhalf\r\n", 0.05, RESET], httpx2.TransportError),
        ([CHUNKED + b"zz\r\nhalf\r\n"], httpx2.RemoteProtocolError),
        ([b"SSH-2.0-OpenSSH_9.6\r\n"], httpx2.RemoteProtocolError),
        (
            [b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"],
            httpx2.RemoteProtocolError,
        ),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n"], httpx2.RemoteProtocolError),
        ([b"HTTP/1.1 200 OK\r\n", b"x: " + b"y" * (http_line.LONGEST_HEAD + 1)], httpx2.RemoteProtocolError),
        ([b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000], httpx2.RemoteProtocolError),
    ],
    ids=[
        "nothing",
        "cut",
        "half a head",
        "half a body",
        "half a chunk",
        "cut in the body",
        "no chunk",
        "no HTTP",
        "upgrade",
        "two lengths",
        "head without end",
        "interim answers without end",
    ],
)
@on_both_loops
async def test_a_broken_answer_is_a_fault_of_the_transport_and_ends_its_line(
    pieces: Pieces, fault: type[httpx2.TransportError]
) -> None:
    async with asking(pieces, [with_length(b"fine")]) as story:
        with pytest.raises(fault):
            async with asyncio.timeout(5):
                await story.ask(finished=False)
        assert story.pool.idle == 0
        assert await story.ask() == b"fine"
        await story.provider.sees(lambda provider: provider.open_connections == 1)


@on_both_loops
async def test_an_answer_without_length_ends_with_its_connection() -> None:
    async with asking([b"HTTP/1.1 200 OK\r\n\r\nall ", 0.02, b"of it", CLOSE]) as story:
        assert await story.ask() == b"all of it"
        assert story.pool.idle == 0


@on_both_loops
async def test_bytes_that_nobody_asked_for_cost_the_line_and_not_the_answer() -> None:
    """Else the next call would hear them as its own."""
    async with asking([with_length(b"one") + with_length(b"stray")], [with_length(b"two"), 0.05, b"stray"]) as story:
        assert await story.ask() == b"one"
        assert await story.ask() == b"two"
        await asyncio.sleep(0.1)
        assert story.pool.idle == 0
        assert await story.ask() == b"two"
        assert story.provider.connections == 3


@on_both_loops
async def test_a_big_answer_arrives_whole_and_waits_for_a_slow_reader() -> None:
    body = bytes(range(256)) * 40_000
    async with asking([with_length(body)]) as story:
        line = await story.pool.ask(REQUEST)
        await asyncio.sleep(0.2)
        first = await line.read()
        assert len(first) < 2_000_000
        heard = [first]
        while piece := await line.read():
            heard.append(piece)
        await line.let_go(finished=True)
        assert b"".join(heard) == body
        assert await story.ask() == body
        assert story.provider.connections == 1


@on_both_loops
async def test_an_answer_without_end_is_given_up() -> None:
    """A provider gone mad must not take the worker's memory."""
    part = b"x" * 1_000_000
    async with asking([CHUNKED, *[b"%x\r\n%b\r\n" % (len(part), part)] * 80]) as story:
        with pytest.raises(httpx2.RemoteProtocolError, match="too long"):
            await story.ask(finished=False)


@on_both_loops
async def test_a_big_request_arrives_whole() -> None:
    body = b"y" * 5_000_000
    async with asking([with_length(b"x")]) as story:
        line = await story.pool.ask(b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await line.let_go(finished=True)
        assert story.provider.requests[0].endswith(body)
        assert story.pool.idle == 1


@on_both_loops
async def test_an_answer_that_comes_before_its_question_is_out_costs_the_line() -> None:
    """A server that refuses a question for its size reads no further; the rest of it must not begin the next one."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with open_lines(Address("127.0.0.1", listening.getsockname()[1])) as pool:
            call = asyncio.create_task(pool.ask(REQUEST + b"z" * 20_000_000))
            await asyncio.sleep(0.1)
            served, _ = listening.accept()
            with served:
                served.sendall(with_length(b"", status=b"413 Too Large"))
                line = await call
                assert line.status == 413
                await line.let_go(finished=True)
                assert pool.idle == 0


@on_both_loops
async def test_cancelling_closes_the_line() -> None:
    """The provider must hear that nobody waits any more: it may stop thinking, and stop billing."""
    silent: Pieces = [5.0]
    begun: Pieces = [CHUNKED + b"4\r\nhalf\r\n", 5.0]
    for pieces in (silent, begun):
        async with asking(pieces) as story:
            call = asyncio.create_task(story.ask(finished=False))
            await story.provider.sees(lambda provider: bool(provider.requests))
            await asyncio.sleep(0.02)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert story.pool.idle == 0
            line = next(iter(story.pool._open), None)
            assert line is None or not line.is_open


@on_both_loops
async def test_what_follows_the_end_marker_is_read_without_anybody_waiting() -> None:
    """The last chunk of a stream often comes by itself; it costs nobody time, and the line is kept."""
    async with asking([CHUNKED + b"4\r\nlast\r\n", 0.03, b"0\r\n\r\n"]) as story:
        for _ in range(2):
            line = await story.pool.ask(REQUEST)
            assert await line.read() == b"last"
            await line.let_go(finished=True)
            assert story.pool.idle == 0
            await asyncio.sleep(0.06)
            assert story.pool.idle == 1
        assert story.provider.connections == 1


@on_both_loops
async def test_a_provider_that_never_ends_its_answer_loses_the_line() -> None:
    async with asking([CHUNKED + b"4\r\nlast\r\n", 0.05, b"4\r\nmore\r\n", 5.0]) as story:
        line = await story.pool.ask(REQUEST)
        assert await line.read() == b"last"
        await line.let_go(finished=True)
        await asyncio.sleep(0.2)
        assert not line.is_connected
        assert story.pool.idle == 0


@on_both_loops
async def test_closing_the_pool_ends_the_calls_under_way() -> None:
    async with raw_provider([5.0]) as provider:
        async with open_lines(Address("127.0.0.1", provider.port)) as pool:
            call = asyncio.create_task(pool.ask(REQUEST))
            await provider.sees(lambda provider: bool(provider.requests))
        with pytest.raises(httpx2.TransportError):
            await call


@on_both_loops
async def test_a_closed_port_is_a_connect_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(httpx2.ConnectError):
            await dial(Address(host, port), HttpLine)


@on_both_loops
async def test_a_name_that_is_none_is_a_connect_error() -> None:
    for host in ("no-such-host.invalid", "x" * 80):
        with pytest.raises(httpx2.ConnectError):
            await dial(Address(host, 80), HttpLine)


@on_both_loops
async def test_the_second_address_is_tried_when_the_first_refuses() -> None:
    """localhost is ::1 first on most machines, and most local model servers listen on 127.0.0.1 alone."""
    async with raw_provider([with_length(b"x")]) as provider:
        line = await dial(Address("localhost", provider.port), HttpLine)
        await line.ask(REQUEST)
        assert await line.read() == b"x"
        line.close()
        await asyncio.sleep(0.01)


@on_both_loops
async def test_nothing_is_left_behind(recwarn: pytest.WarningsRecorder) -> None:
    """Sockets that nobody closes are how a process dies after a week."""
    async with asking([with_length(b"x")]) as story:
        await asyncio.gather(*(story.ask() for _ in range(5)))
        lines = list(story.pool._open)
    assert not any(line.is_connected for line in lines)
    del lines
    gc.collect()
    assert not [warning for warning in recwarn if issubclass(warning.category, ResourceWarning)]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1 and provider.test that nobody signed."""
    made = tmp_path_factory.mktemp("tls") / "both.pem"
    key, signed = made.with_suffix(".key"), made.with_suffix(".crt")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=provider.test"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:provider.test", "-keyout", str(key), "-out", str(signed)]
    subprocess.run(words, check=True, capture_output=True)
    made.write_bytes(key.read_bytes() + signed.read_bytes())
    return made


@on_both_loops
async def test_tls_is_spoken_and_the_line_kept(certificate: Path) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with raw_provider([CHUNKED, 0.02, chunked(b"secret")], tls=tls) as provider:
        async with open_lines(Address("127.0.0.1", provider.port, trusting)) as pool:
            story = Asking(provider, pool)
            assert [await story.ask() for _ in range(3)] == [b"secret"] * 3
            assert provider.connections == 1
        async with open_lines(Address("127.0.0.1", provider.port, trusting, "provider.test")) as pool:
            assert await Asking(provider, pool).ask() == b"secret"


@on_both_loops
async def test_a_certificate_of_somebody_else_is_refused(certificate: Path) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # the server complains of the handshake
    async with raw_provider([with_length(b"x")], tls=tls) as provider:
        for address in (
            Address("127.0.0.1", provider.port, httpx2.create_ssl_context()),
            Address("127.0.0.1", provider.port, ssl.create_default_context(cafile=str(certificate)), "other.test"),
        ):
            with pytest.raises(httpx2.ConnectError):
                await dial(address, HttpLine)
        assert provider.requests == []


@on_both_loops
async def test_a_handshake_that_is_cancelled_closes_its_socket() -> None:
    """The time of a call may end while the provider is only being connected to."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(5)
        address = Address("127.0.0.1", listening.getsockname()[1], ssl.create_default_context())
        call = asyncio.create_task(dial(address, HttpLine))
        await asyncio.sleep(0.1)
        served, _ = listening.accept()
        with served:
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.sleep(0.05)
            served.settimeout(5)
            heard = b""
            with contextlib.suppress(ConnectionError):
                while piece := served.recv(65536):
                    heard += piece
            assert heard.startswith(b"\x16\x03")


class FakeWire(asyncio.Transport):
    """Takes everything and sends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.closed = True
