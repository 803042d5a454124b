"""One kept connection to a provider, and one request on it at a time: HTTP/1.1 as an asyncio protocol.

Bytes are taken apart where the event loop delivers them, by httptools (llhttp); who waits is woken once for all that
came together. Errors are httpx2's, so that whoever reads them need not know which way a call went.
"""

import asyncio
import select
from collections.abc import Callable, Mapping
from typing import cast

import httptools
import httpx2

LONGEST_HEAD = 256 * 1024
"""Bytes before the body of an answer, interim answers included; real ones stay below a few thousand."""

LONGEST_ANSWER = 64 * 1024 * 1024
"""Bytes of one body; whoever sends more is not answering a question."""

_UNREAD = 256 * 1024
"""Bytes that may wait for their reader before the provider is made to wait."""

_LEFTOVERS = 0.1
"""Seconds for what follows an end marker, so that the connection can be used again. Nobody waits for it."""

_NO_BODY = (204, 304)


class HttpLine(asyncio.Protocol):
    """``ask``, then ``read`` until it gives nothing, then ``let_go``: not to be shared while that lasts.

    ``idle`` is told when the line can be used again, ``gone`` when it never can.
    """

    def __init__(
        self, *, idle: Callable[["HttpLine"], None] | None = None, gone: Callable[["HttpLine"], None] | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._tell_idle = idle
        self._tell_gone = gone
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False
        self.idle_since = 0.0
        self._forget()

    def _forget(self) -> None:
        self._fault: httpx2.TransportError | None = None
        self._headers: dict[str, str] = {}
        self._status = 0
        self._parts: list[bytes] = []
        self._unread = 0
        self._received = 0
        self._interim = False
        self._has_head = False
        self._to_the_end = False
        self._whole = False
        self._reusable = False
        self._paused = False

    # --- what the caller does ---

    @property
    def status(self) -> int:
        """Of the answer."""
        return self._status

    @property
    def headers(self) -> Mapping[str, str]:
        """Of the answer, names in lower case; of a name that came twice the last value."""
        return self._headers

    async def ask(self, request: bytes) -> None:
        """Send a request and wait for the head of its answer. Raises ``httpx2.TransportError``."""
        transport = self._transport
        if transport is None:
            raise httpx2.ReadError("the connection was closed before it was used")
        self._forget()
        self._busy = True
        transport.write(request)
        while not self._has_head:
            await self._wait()

    async def read(self) -> bytes:
        """What came of the body since the last time; nothing at its end. Raises ``httpx2.TransportError``."""
        while not self._parts:
            if self._whole:
                return b""
            await self._wait()
        parts, self._parts, self._unread = self._parts, [], 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def let_go(self, *, finished: bool) -> None:
        """The caller is done; ``finished`` says that it only skips what follows the end it has read.

        Any other answer that is not whole costs the connection: nothing tells the next answer from its rest.
        """
        if self._whole:
            self._end()
        elif finished and self._fault is None and self._transport is not None and not self._to_the_end:
            self._parts = []
            self._busy = False
            if self._paused:
                self._transport.resume_reading()
            self._timer = self._loop.call_later(_LEFTOVERS, self.close)
        else:
            self.close()

    def close(self) -> None:
        """Cut the connection; whoever waits on it hears so."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_connected(self) -> bool:
        """As far as the event loop knows."""
        return self._transport is not None

    @property
    def is_open(self) -> bool:
        """Nothing has come on the idle line, not even its end, whether or not the event loop had time to look."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and not _is_readable(transport)

    async def _wait(self) -> None:
        if self._fault is not None:
            raise self._fault
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, fault: httpx2.TransportError) -> None:
        if self._fault is None:
            self._fault = fault
        self.close()
        self._wake()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._busy = False
        transport = self._transport
        if transport is None:
            return
        # An answer may come before its question is out, a refusal for its size for example.
        if self._reusable and self._fault is None and not transport.get_write_buffer_size() and self._tell_idle:
            self._parts = []
            self.idle_since = self._loop.time()
            self._tell_idle(self)
        else:
            self.close()

    # --- what the event loop tells ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.Protocol``."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """See ``asyncio.Protocol``."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._transport = None
        if not self._whole and self._fault is None:
            if exc is not None:
                self._fault = httpx2.ReadError("the connection broke")
            elif self._to_the_end:
                self._whole = True
            else:
                self._fault = httpx2.RemoteProtocolError("the connection was closed before the answer was whole")
        self._wake()
        if self._tell_gone is not None:
            self._tell_gone(self)

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``."""
        if self._whole or not (self._busy or self._timer):
            # Nobody has asked for this, and it must not become the next answer's beginning.
            self._reusable = False
            self.close()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._reusable = False
            if not self._whole:
                self._fail(httpx2.RemoteProtocolError("the answer is not HTTP"))
        if self._received > (LONGEST_ANSWER if self._has_head else LONGEST_HEAD):
            self._fail(httpx2.RemoteProtocolError("the answer is too long"))
        if self._whole and self._timer is not None:
            self._end()
        elif self._unread > _UNREAD and not self._paused and self._transport is not None and not self._whole:
            self._paused = True
            self._transport.pause_reading()
        if self._waiter is not None:
            self._wake()

    # --- what the parser tells ---

    def on_message_begin(self) -> None:
        """See ``httptools``."""
        if self._whole:
            self._reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """See ``httptools``."""
        if not self._has_head:  # what follows the body is not about it
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """See ``httptools``."""
        if self._whole:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self._interim = True
            self._headers = {}
            return
        self._status = status
        headers = self._headers
        self._to_the_end = (
            "content-length" not in headers and "transfer-encoding" not in headers and status not in _NO_BODY
        )
        self._has_head = True

    def on_body(self, body: bytes) -> None:
        """See ``httptools``."""
        if self._busy and not self._whole:
            self._parts.append(body)
            self._unread += len(body)

    def on_message_complete(self) -> None:
        """See ``httptools``."""
        if self._interim:
            self._interim = False
        elif not self._whole:
            self._whole = True
            self._reusable = self._parser.should_keep_alive() and not self._to_the_end


def _is_readable(transport: asyncio.BaseTransport) -> bool:
    socket = transport.get_extra_info("socket")
    if socket is None or socket.fileno() < 0:
        return True
    if not hasattr(select, "poll"):  # not there on Windows, where select takes any number
        return bool(select.select([socket.fileno()], [], [], 0)[0])
    poll = select.poll()
    poll.register(socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))
