"""How long a connection may keep us waiting: for its request to be said, and for its answer to be taken."""

import contextlib
import socket
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from shared.adapters.http.one_protocol import OneProtocol

log = structlog.get_logger(__name__)

SEND_BUFFER = 131_072
"""Bytes that the kernel holds for a client that does not read; left to itself it takes megabytes for each."""

HEAD_BYTES = 65_536
"""The most that is said in a head, or in whatever else is neither body nor the end of a request."""

FAIR_BYTES = 65_536
"""Each such piece of a long answer gives its reader one second more."""


@dataclass(frozen=True, slots=True)
class Patience:
    """``head``: for the rest of a request's head, from its first byte on. ``first``: for that byte on a new connection,
    and once something else was said after an answer.

    ``reader``: for a client to take something of what was written to it, while so much waits that nothing more is
    written; and for all of it, with a second more for each ``FAIR_BYTES``.
    """

    head: timedelta = timedelta(seconds=10)
    first: timedelta = timedelta(seconds=30)
    reader: timedelta = timedelta(seconds=20)


class PatientProtocol(OneProtocol):
    """A connection that knows since when it waits. It has no timer: whoever owns it calls ``cut_off_if_slow``."""

    _silent_since: float | None = None
    _head_since: float | None = None
    _blocked_since: float | None = None
    _owed = 0
    _left = 0
    _moved_at = 0.0
    _unmeant = 0
    _is_meant = False
    _is_cut = False
    _under_way: RequestResponseCycle | None = None

    def connection_made(self, transport: Any) -> None:
        """See ``asyncio.Protocol``."""
        super().connection_made(transport)
        with contextlib.suppress(OSError, AttributeError):  # gone already, or no socket of the network
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self._silent_since = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """Part of a request. What comes after an answer and begins none is the rest of one that nobody reads.

        Neither the parser nor uvicorn bounds what they keep of a head, or of the headers after a body in chunks.
        """
        self._is_meant = False
        super().data_received(data)
        self._unmeant = 0 if self._is_meant else self._unmeant + len(data)
        if self._unmeant > HEAD_BYTES:
            self._cut_off("end of head", bytes=self._unmeant)
        elif self._is_rest():
            self._silent_since = self._silent_since or self.loop.time()

    def _is_rest(self) -> bool:
        """Something came after an answer, and is no request; uvicorn's timer between two requests ended with it."""
        is_between = self._head_since is None and self.timeout_keep_alive_task is None
        return is_between and self.cycle is not None and self.cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        """uvicorn tells the request that came last; the one that is being answered may be an earlier one."""
        super().connection_lost(exc)
        if self._under_way is not None and not self._under_way.response_complete:
            self._under_way.disconnected = True
            self._under_way.message_event.set()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._under_way = cycle
        super()._start_asgi_task(cycle, app)

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        super().on_message_begin()
        self._silent_since = None
        self._head_since = self.loop.time()

    def on_headers_complete(self) -> None:
        """The body has bounds of its own. A head that came as one piece is measured here, before anybody reads it."""
        said = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if said > HEAD_BYTES:
            self._cut_off("end of head", bytes=said)
        if self._is_cut:  # what else came with it is answered no more
            return
        self._head_since = None
        self._is_meant = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if self._is_cut:
            return
        self._is_meant = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The end of a request."""
        if self._is_cut:
            return
        self._is_meant = True
        super().on_message_complete()

    def pause_writing(self) -> None:
        """As much waits to be taken as may."""
        super().pause_writing()
        self._blocked_since = self._moved_at = self.loop.time()
        self._left = self.transport.get_write_buffer_size()
        self._owed = max(0, self._left - SEND_BUFFER)

    def resume_writing(self) -> None:
        """Most of it was taken."""
        super().resume_writing()
        self._blocked_since = None

    def cut_off_if_slow(self, now: float, patience: Patience) -> None:
        """Break the connection at once when it has kept us waiting for too long, and what waits for it is dropped."""
        if self._head_since is not None and self.flow is not None and self.flow.read_paused:
            self._head_since = now  # it is we who don't read on, until an earlier request is answered
        waits = (
            ("reader", self._unread_since(now), patience.reader),
            ("reader", self._blocked_since, patience.reader + timedelta(seconds=self._owed / FAIR_BYTES)),
            ("head", self._head_since, patience.head),
            ("first byte", self._silent_since, patience.first),
        )
        for what, since, limit in waits:
            if since is not None and now - since > limit.total_seconds():
                self._cut_off(what, seconds=round(now - since, 1))
                return

    def _unread_since(self, now: float) -> float | None:
        """When the client was last seen to have taken something, while it keeps us waiting."""
        if self._blocked_since is None or self.transport is None:
            return None
        left = self.transport.get_write_buffer_size()
        if left < self._left:
            self._left, self._moved_at = left, now
        return self._moved_at

    def _cut_off(self, what: str, **how: float) -> None:
        if self.transport is None or self._is_cut:
            return
        log.info("slow_client_cut_off", waited_for=what, **how)
        self._blocked_since = self._head_since = self._silent_since = None
        self._unmeant = 0
        self._is_cut = True
        self.transport.abort()
