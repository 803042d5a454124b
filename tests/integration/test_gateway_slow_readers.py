"""A client that does not read its stream costs a bounded sum, is cut off, harms nobody, and misses nothing."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import psycopg
import pytest
import redis.asyncio

from bench.processes import resident_bytes
from shared.messages.routes import run_channel, run_events
from tests.stack import TOKEN, Process, Stack, async_client, open_stack, text_of

PIECE = "x" * 4000
PIECES = 3000
"""Twelve megabytes: more than all buffers between two processes hold."""

AT_MOST = 6_000_000
CUT_WITHIN = 15.0
TOML = "[http]\nslow_client_seconds = 1.5\nmax_streams = 3\n"


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """What a worker would tell is told by the test."""
    with open_stack(tmp_path, database_url, redis_url, TOML) as opened:
        yield opened


class Voice:
    """Tells events of a run as a worker does."""

    def __init__(self, client: "redis.asyncio.Redis", run: str) -> None:
        self._client = client
        self._run = UUID(run)
        self._offset = 0
        self._last = "0-1"

    async def tell(self, *texts: str, kind: str = "delta") -> None:
        """Tell each text as one event."""
        pipeline = self._client.pipeline(transaction=False)
        for text in texts:
            self._offset += max(1, len(text))
            identifier = f"1-{self._offset}"
            fields: dict[Any, Any] = {"type": kind, "data": json.dumps({"text": text}), "after": self._last}
            pipeline.xadd(run_events(self._run), fields, id=identifier)
            self._last = identifier
        pipeline.publish(run_channel(self._run), "")
        await pipeline.execute()


@pytest.fixture
async def redis_of(stack: Stack) -> AsyncIterator["redis.asyncio.Redis"]:
    """The server of the stack."""
    async with redis.asyncio.Redis.from_url(stack.redis_url, decode_responses=True) as client:
        yield client


async def sluggard(gateway: Process, sender: str) -> tuple[socket.socket, bytes, str]:
    """A raw client that has asked for a stream, heard that it was accepted, and reads no more; the run's id."""
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    parts = urlsplit(gateway.url)
    await loop.sock_connect(sock, (parts.hostname, parts.port))
    body = json.dumps({"message": "hello", "sender": sender}).encode()
    head = f"POST /api/v1/chat/stream HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {TOKEN}\r\n"
    await loop.sock_sendall(sock, f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    heard = b""
    async with asyncio.timeout(10):
        while b"event: accepted" not in heard or not heard.endswith(b"\n\n\r\n"):
            heard += await loop.sock_recv(sock, 1024)
    return sock, heard, json.loads(heard.partition(b"data: ")[2].partition(b"\n")[0])["run_id"]


def frames_of(stream: bytes) -> list[tuple[str, str]]:
    """Ids and texts of the whole frames of a chunked body that broke off somewhere."""
    body, rest = b"", stream.partition(b"\r\n\r\n")[2]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        if not size or len(rest) < int(size, 16):
            break
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    frames = [dict(line.split(": ", 1) for line in one.splitlines()) for one in body.decode().split("\n\n") if one]
    return [(frame["id"], json.loads(frame["data"]).get("text", "")) for frame in frames if "id" in frame]


async def test_a_client_that_does_not_read_is_cut_off_harms_nobody_and_resumes(
    stack: Stack, redis_of: "redis.asyncio.Redis"
) -> None:
    """Its words wait in Redis and not in the gateway, and others hear theirs in time."""
    gateway = stack.gateway()
    async with async_client(gateway) as http:
        sock, heard, slow_run = await sluggard(gateway, "slow")
        async with http.stream("POST", "/api/v1/chat/stream", json={"message": "hello", "sender": "quick"}) as answer:
            told = answer.aiter_text()
            quick = Voice(redis_of, json.loads((await anext(told)).partition("data: ")[2])["run_id"])
            slow = Voice(redis_of, slow_run)
            before, most, hops = resident_bytes(gateway.popen.pid), 0, list[float]()
            for begin in range(0, PIECES, 100):
                await slow.tell(*[f"{number:06d}{PIECE}" for number in range(begin, begin + 100)])
                began = time.monotonic()
                await quick.tell(f"word {begin}")
                async with asyncio.timeout(5):
                    while f"word {begin}" not in await anext(told):
                        pass
                hops.append(time.monotonic() - began)
                most = max(most, resident_bytes(gateway.popen.pid) - before)
            async with asyncio.timeout(CUT_WITHIN):
                while "slow_client_cut_off" not in text_of(gateway):
                    await asyncio.sleep(0.1)
            await quick.tell("still there")
            async with asyncio.timeout(5):
                assert "still there" in await anext(told)
        assert most < AT_MOST
        assert sorted(hops)[len(hops) // 2] < 0.25
        loop = asyncio.get_running_loop()
        with sock:
            async with asyncio.timeout(10):
                while piece := await loop.sock_recv(sock, 1 << 20):
                    heard += piece
        frames = frames_of(heard)
        assert len(frames) < PIECES
        seen = [text for _, text in frames[1:]]
        headers = {"Last-Event-ID": frames[-1][0]}
        async with http.stream("GET", f"/api/v1/runs/{slow_run}/events", headers=headers) as answer:
            async with asyncio.timeout(30):
                async for line in answer.aiter_lines():
                    if line.startswith("data: "):
                        seen.append(json.loads(line.removeprefix("data: "))["text"])
                    if len(seen) == PIECES:
                        break
    assert seen == [f"{number:06d}{PIECE}" for number in range(PIECES)]
    assert "Traceback" not in text_of(gateway)


async def test_streams_have_a_number_and_nothing_is_accepted_beyond(stack: Stack) -> None:
    """A gateway that is full says so, and when to come again; a seat that was left is free."""
    gateway = stack.gateway()
    async with async_client(gateway) as http:
        socks = [(await sluggard(gateway, f"sits-{number}"))[0] for number in range(3)]
        refused = await http.post("/api/v1/chat/stream", json={"message": "hello", "sender": "late"})
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        assert refused.json()["error"] == "too many streams are open here"
        with psycopg.connect(stack.database_url) as database:
            assert database.execute("select count(*) from runs").fetchone() == (3,)
        for sock in socks:
            sock.close()
        async with asyncio.timeout(5):
            while True:
                async with http.stream("POST", "/api/v1/chat/stream", json={"message": "hello"}) as answer:
                    if answer.status_code == 200:
                        break
                await asyncio.sleep(0.05)
