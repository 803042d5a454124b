"""One kept-alive HTTP connection that does just what the load needs, at a tenth of a client library's price."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

LONGEST_LINE = 1 << 20


class WrongStatus(OSError):
    """Something was answered, but not 200."""

    def __init__(self, path: str, status: int) -> None:
        super().__init__(f"{path} answered {status}")
        self.status = status


class HttpLine:
    """Requests on it follow each other. Use it as an async context manager."""

    def __init__(self, url: str, *, token: str = "", key: str = "") -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        bearer = f"authorization: Bearer {token}\r\n" if token else ""
        bearer += f"idempotency-key: {key}\r\n" if key else ""
        self._head = f" HTTP/1.1\r\nhost: {self._host}:{self._port}\r\n{bearer}content-type: application/json\r\n"
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._goodbye = False

    @property
    def is_over(self) -> bool:
        """Whether the server has said that it closes the connection, or has closed it while nothing was asked."""
        return self._goodbye or self._reader is None or self._reader.at_eof()

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
            raise WrongStatus(path, status)
        return orjson.loads(body)

    async def post(self, path: str, value: Mapping[str, Any], *, key: str = "") -> tuple[int, bytes]:
        """Send JSON, with an ``Idempotency-Key`` where one is given; the status and the body that came.

        Raises ``OSError`` when the connection was lost.
        """
        return await self._ask(self._request(path, value, key))

    async def stream(self, path: str, value: Mapping[str, Any]) -> AsyncGenerator[tuple[str, bytes], None]:
        """Send JSON; each server-sent event as its type and data. Raises ``OSError`` when the stream is no stream.

        Lines that are no field of an event (chunk sizes, comments) are passed over.
        """
        async for kind, data, _ in self._events(path, self._request(path, value)):
            yield kind, data

    async def follow(
        self, path: str, value: Mapping[str, Any] | None = None, *, key: str = "", after: str = ""
    ) -> AsyncGenerator[tuple[str, bytes, str], None]:
        """The same with the id of each event; without JSON to send, what comes ``after`` such an id."""
        request = f"GET {path}{self._head}last-event-id: {after}\r\n\r\n".encode()
        async for event in self._events(path, request if value is None else self._request(path, value, key)):
            yield event

    async def _events(self, path: str, request: bytes) -> AsyncGenerator[tuple[str, bytes, str], None]:
        reader, writer = self._opened()
        writer.write(request)
        head = await self._heard(reader)
        if _status(head) != 200:
            raise WrongStatus(path, _status(head))
        if b"text/event-stream" not in head:
            raise OSError(f"{path} answered no stream")
        kind = identifier = ""
        while (line := await reader.readline()) != b"0\r\n":
            if not line:
                raise OSError("the stream broke off")
            name, _, rest = line.rstrip(b"\r\n").partition(b": ")
            if name == b"event":
                kind = rest.decode()
            elif name == b"id":
                identifier = rest.decode()
            elif name == b"data":
                yield kind, rest, identifier
        await reader.readline()

    def _request(self, path: str, value: Mapping[str, Any], key: str = "") -> bytes:
        body = orjson.dumps(value)
        once = f"idempotency-key: {key}\r\n" if key else ""
        return f"POST {path}{self._head}{once}content-length: {len(body)}\r\n\r\n".encode() + body

    async def _ask(self, request: bytes) -> tuple[int, bytes]:
        reader, writer = self._opened()
        writer.write(request)
        head = await self._heard(reader)
        length = content_length(head)
        try:
            return _status(head), await reader.readexactly(length) if length else b""
        except asyncio.IncompleteReadError as fault:
            raise ConnectionResetError("the answer broke off") from fault

    async def _heard(self, reader: asyncio.StreamReader) -> bytes:
        head = await _head(reader)
        self._goodbye = b"connection: close" in head
        return head

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
