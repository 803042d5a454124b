"""Servers of the Model Context Protocol over HTTP: made with the SDK, and such as no SDK would make."""

import asyncio
import contextlib
import gzip
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest

from shared.domain.mcp_server import McpServer
from shared.ports.mcp_servers import CallFailed
from tests.mcp_worlds import ROOT, SOON, connected, until
from tests.stack import free_port

Answer = Callable[[Mapping[str, Any]], tuple[int, Mapping[str, str], bytes]]
"""From a JSON-RPC message to status, headers and body."""

JSON = {"Content-Type": "application/json"}
INFO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "raw", "version": "1"},
}
TOOL = {"name": "a", "inputSchema": {"type": "object"}}


def server(port: int, path: str = "mcp", **more: Any) -> McpServer:
    """One on this machine."""
    times = {"start_timeout": timedelta(seconds=SOON), "call_timeout": timedelta(seconds=SOON), **more}
    return McpServer("s", url=f"http://127.0.0.1:{port}/{path}", **times)


@pytest.fixture
def sdk() -> Iterator[int]:
    """The port of a server made with the SDK."""
    port = free_port()
    words = [sys.executable, "-m", "tests.mcp_server", "http", str(port)]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield port
    process.kill()
    process.wait()


class Raw:
    """Answers POSTs as it is told to, and keeps the heads of all requests."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.heads: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            lengths = [
                line.partition(":")[2] for line in head.splitlines() if line.lower().startswith("content-length")
            ]
            body = await reader.readexactly(int(lengths[0])) if lengths else b""
            status, headers, said = self._answer(json.loads(body)) if body else (405, {}, b"")
            lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(said)}", "Connection: close"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            writer.write("\r\n".join([*lines, "", ""]).encode() + said)
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def raw(answer: Answer) -> AsyncIterator[tuple[int, Raw]]:
    """Such a server, and its port."""
    served = Raw(answer)
    listening = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1], served


def result(asked: Mapping[str, Any], body: Mapping[str, Any]) -> bytes:
    """A JSON-RPC result."""
    return json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": body}).encode()


def speaking(call: Answer) -> Answer:
    """A server that is good until a tool is called."""

    def answer(asked: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        match asked["method"]:
            case "initialize":
                return 200, JSON, result(asked, INFO)
            case "ping":
                return 200, JSON, result(asked, {})
            case "tools/list":
                return 200, JSON, result(asked, {"tools": [TOOL]})
            case "tools/call":
                return call(asked)
            case "notifications/initialized" | "notifications/cancelled":
                return 202, {}, b""
            case _:
                return 404, {}, b""

    return answer


async def test_tools_over_http_are_listed_and_used(sdk: int) -> None:
    """Awaited until it listens: a server may be there later than we are."""
    async with connected(server(sdk)) as world:
        await world.until(lambda: world.condition() == "up", "it is connected")
        assert await world.said("s__echo", text="hey", times=2) == "hey hey"
        assert (await world.call("s__fail", why="so")).is_error
        assert "[image of type image/png" in await world.said("s__picture")
        await world.said("s__grow")
        await world.until(lambda: "s__grown" in world.names(), "the new tool is there")


async def test_a_call_over_http_ends_in_time_and_the_rest_goes_on(sdk: int) -> None:
    """One slow call is no reason to connect anew."""
    async with connected(server(sdk, call_timeout=timedelta(seconds=2))) as world:
        await world.until(lambda: world.condition() == "up", "it is connected")
        slow = asyncio.create_task(world.call("s__slow", seconds=60))
        assert await world.said("s__echo", text="beside it") == "beside it"
        with pytest.raises(CallFailed, match="did not answer within 2 s"):
            await slow
        assert await world.said("s__echo", text="after it") == "after it"


async def test_headers_go_along_and_only_there() -> None:
    """A token for one server is for that one."""
    answer = speaking(lambda asked: (200, JSON, result(asked, {"content": []})))
    sesame = {"Authorization": "Bearer sesame-sesame"}
    async with raw(answer) as (port, served), connected(server(port, headers=sesame)) as world:
        assert await world.said("s__a") == "(no output)"
    assert all("Authorization: Bearer sesame-sesame" in head for head in served.heads)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda _: (500, {}, b"oops"), "refused the call: Server returned an error response"),
        (lambda _: (200, JSON, b"no json"), "refused the call: Failed to parse JSON response"),
        (lambda _: (200, {"Content-Type": "text/html"}, b"<p>"), "refused the call: Unexpected content type"),
        (lambda _: (307, {"Location": "http://192.0.2.1/"}, b""), "refused the call: Redirect to .* not followed"),
        (lambda _: (200, JSON, b" " * (17 * 1024 * 1024)), "refused the call: Failed to parse"),
    ],
)
async def test_what_is_no_answer_is_an_error_and_the_next_call_works(call: Answer, why: str) -> None:
    """Whatever came is told within bounds."""
    asked_before: list[int] = []

    def once(asked: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        asked_before.append(1)
        good = (200, JSON, result(asked, {"content": [{"type": "text", "text": "good"}]}))
        return call(asked) if len(asked_before) == 1 else good

    async with raw(speaking(once)) as (port, _), connected(server(port)) as world:
        with pytest.raises(CallFailed, match=why) as caught:
            await world.call("s__a")
        assert len(str(caught.value)) < 700
        assert await world.said("s__a") == "good"


async def test_a_body_that_was_packed_unasked_is_not_unpacked() -> None:
    """A few bytes may become as many as there is memory."""

    def answer(asked: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        return 200, {**JSON, "Content-Encoding": "gzip"}, gzip.compress(b" " * 100_000_000)

    async with raw(speaking(answer)) as (port, _), connected(server(port)) as world:
        with pytest.raises(CallFailed, match="ended in the middle of the call"):
            await world.call("s__a")
        await until(lambda: world.condition() == "up", "it is connected again")


async def test_an_end_is_not_lost_in_a_connection_that_breaks_down() -> None:
    """Else the worker would hang as it leaves."""
    packed = {**JSON, "Content-Encoding": "gzip"}
    async with raw(speaking(lambda _: (200, packed, b""))) as (port, _), connected(server(port)) as world:
        with pytest.raises(CallFailed):
            await world.call("s__a")  # and leave in the same moment


@pytest.mark.parametrize(
    ("status", "told"), [(401, "HTTP status 401"), (403, "HTTP status 403"), (404, "HTTP status 404")]
)
async def test_who_does_not_let_us_in_is_told_with_its_status(status: int, told: str) -> None:
    """A wrong token, a wrong path: the operator has to know which."""
    async with raw(lambda _: (status, {}, b"")) as (port, _), connected(server(port)) as world:
        assert told in world.reason()


async def test_the_metadata_address_of_a_cloud_is_asked_by_nobody() -> None:
    """Also if the file says so: it gives away the machine's own keys."""
    there = McpServer("s", url="http://169.254.169.254/latest", start_timeout=timedelta(seconds=SOON))
    async with connected(there) as world:
        assert world.reason().startswith("its url is not asked: ")
