"""Run events as server-sent events (WHATWG HTML, section 9.2); the event id resumes the stream."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator
from datetime import timedelta

import orjson
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from services.gateway.actions.take_leave import Departure
from services.gateway.rules.stream_fields import data_of
from shared.domain.api_key import ApiKey
from shared.errors import TryLater
from shared.messages.run_events import RunEvent
from shared.ports.clock import Clock

SILENT_FOR = timedelta(seconds=10)
"""A moment of silence is told with a comment when nothing was sent for so long. Such moments come at least every
fifteen seconds."""

COME_AGAIN = 5.0
KEEP_ALIVE = b": keep-alive\n\n"
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class Seats:
    """How many streams are open in this process, and how many may be: a named key may have half of them, so that none
    shuts out all others."""

    def __init__(self, most: int) -> None:
        self._free = self._most = most
        self._of_keys = Counter[str]()

    @property
    def taken(self) -> int:
        """How many streams are open."""
        return self._most - self._free

    def take(self, key: ApiKey) -> "Seat":
        """One more stream of this key. Raises ``TryLater`` when there are too many."""
        if self._free <= 0:
            raise TryLater("too many streams are open here", after=COME_AGAIN)
        if not key.is_operator and self._of_keys[key.name] >= max(1, self._most // 2):
            raise TryLater("this key has too many streams open here", after=COME_AGAIN)
        self._free -= 1
        self._of_keys[key.name] += 1
        return Seat(self, key.name)

    def give_back(self, key: str) -> None:
        """One less."""
        self._free += 1
        self._of_keys[key] -= 1
        if not self._of_keys[key]:
            del self._of_keys[key]


class Seat:
    """Of one stream; ``leave`` it once the stream has ended, or was never begun."""

    __slots__ = ("_key", "_seats")

    def __init__(self, seats: Seats, key: str) -> None:
        self._key = key
        self._seats: Seats | None = seats

    def leave(self) -> None:
        """Free it. Again does nothing."""
        if self._seats is not None:
            self._seats.give_back(self._key)
        self._seats = None


class EventStream(Response):
    """A response that sends ``first`` at once and each event as it comes, and ends when its client or we ourselves go.

    A client that does not read holds up nothing but its own stream: what comes next is read when it has taken what
    came before.
    """

    def __init__(
        self,
        events: AsyncGenerator[RunEvent | None, None],
        *,
        clock: Clock,
        departure: Departure,
        seat: Seat,
        first: RunEvent | None = None,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.raw_headers = list(HEADERS)
        self._events = events
        self._clock = clock
        self._departure = departure
        self._seat = seat
        self._first = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for the type checker
        left = False

        def leave(_: object) -> None:
            nonlocal left
            if not task.done() and not is_over:
                left = True
                task.cancel()

        is_over = False
        leaving = asyncio.create_task(_until_disconnected(receive))
        leaving.add_done_callback(leave)
        try:
            async with contextlib.aclosing(self._events):
                await self._send(send, only_head=scope["method"] == "HEAD")
        except asyncio.CancelledError:
            if not left or task.uncancel() > 0:
                raise
        finally:
            is_over = True
            leaving.cancel()
            self._seat.leave()

    async def _send(self, send: Send, *, only_head: bool) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if only_head:  # nothing of the body would ever be sent, and its connection would wait for the end of the run
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        if self._first is not None:
            await send(_body(self.piece(self._first)))
        silent_from = self._clock.monotonic()
        async for event in self._events:
            now = self._clock.monotonic()
            piece = b"" if event is None else self.piece(event)
            if piece or now - silent_from >= SILENT_FOR.total_seconds():
                await send(_body(piece or KEEP_ALIVE))
                silent_from = now
            if self._departure.streams_end or self.is_over():
                break
        await send({"type": "http.response.body", "body": self.last_words(), "more_body": False})

    def piece(self, event: RunEvent) -> bytes:
        """What is sent for an event; may be nothing."""
        return frame(event)

    def is_over(self) -> bool:
        """Whether nothing is to be sent any more, though more may come."""
        return False

    def last_words(self) -> bytes:
        """What is sent when all is told, or no more is going to be."""
        return b""


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _body(data: bytes) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": True}


def frame(event: RunEvent) -> bytes:
    """One event; JSON has no line breaks of its own, so one data line holds it."""
    data = orjson.dumps(data_of(event), default=str)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event.id.encode(), event.type.encode(), data)
