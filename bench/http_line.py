"""One kept-alive HTTP connection that does just what the load needs, at a tenth of a client library's price."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

LONGEST_LINE = 1 << 20


class HttpLine:
    """Requests on it follow each other. Use it as an async context manager."""

    def __init__(self, url: str, *, token: str = "") -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        bearer = f"authorization: Bearer {token}\r\n" if token else ""
        self._head = f" HTTP/1.1\r\nhost: {self._host}:{self._port}\r\n{bearer}content-type: application/json\r\n"
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> "HttpLine":
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=LONGEST_LINE)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    async def get(self, path: str) -> Any:
        """The JSON there. Raises ``OSError`` when the answer is not 200."""
        status, body = await self._ask(f"GET {path}{self._head}\r\n".encode())
        if status != 200:
            raise OSError(f"{path} answered {status}")
        return orjson.loads(body)

    async def post(self, path: str, value: Mapping[str, Any]) -> tuple[int, bytes]:
        """Send JSON; the status and the body that came. Raises ``OSError`` when the connection was lost."""
        return await self._ask(self._request(path, value))

    async def stream(self, path: str, value: Mapping[str, Any]) -> AsyncIterator[tuple[str, bytes]]:
        """Send JSON; each server-sent event as its type and data. Raises ``OSError`` when the stream is no stream.

        Lines that are no field of an event (chunk sizes, comments) are passed over.
        """
        reader, writer = self._opened()
        writer.write(self._request(path, value))
        head = await _head(reader)
        if _status(head) != 200 or b"text/event-stream" not in head:
            raise OSError(f"{path} answered {_status(head)} and no stream")
        kind = ""
        while (line := await reader.readline()) != b"0\r\n":
            if not line:
                raise OSError("the stream broke off")
            name, _, rest = line.rstrip(b"\r\n").partition(b": ")
            if name == b"event":
                kind = rest.decode()
            elif name == b"data":
                yield kind, rest
        await reader.readline()

    def _request(self, path: str, value: Mapping[str, Any]) -> bytes:
        body = orjson.dumps(value)
        return f"POST {path}{self._head}content-length: {len(body)}\r\n\r\n".encode() + body

    async def _ask(self, request: bytes) -> tuple[int, bytes]:
        reader, writer = self._opened()
        writer.write(request)
        head = await _head(reader)
        length = content_length(head)
        try:
            return _status(head), await reader.readexactly(length) if length else b""
        except asyncio.IncompleteReadError as fault:
            raise ConnectionResetError("the answer broke off") from fault

    def _opened(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None:
            raise OSError("the line is not open")
        return self._reader, self._writer


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as fault:
        raise ConnectionResetError("the connection was closed before an answer") from fault


def _status(head: bytes) -> int:
    return int(head[9:12])


def content_length(head: bytes) -> int:
    """The length that the head of a message tells; 0 when it tells none."""
    lowered = head.lower()
    begin = lowered.find(b"\r\ncontent-length:")
    if begin < 0:
        return 0
    line = lowered[begin + 17 :]
    end = line.find(b"\r\n")
    return int(line if end < 0 else line[:end])
