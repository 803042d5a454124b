"""A client that hangs up: its run goes on, unless it asked beforehand that it should not."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar
from uuid import UUID

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from services.gateway.actions.end_with_client import may_end_with
from services.gateway.edge.event_stream import EventStream
from shared.domain.run import Accepted
from shared.errors import TryLater

log = structlog.get_logger(__name__)

PREFER = {"Prefer": {"type": "string", "description": "`cancel-on-disconnect`: the run ends when the client hangs up."}}
WISH = "cancel-on-disconnect"
HUNG_UP = 499
"""The status that nobody reads but the log."""

End = Callable[[UUID], Awaitable[object]]
"""Ends a run. Raises ``TryLater``."""

Told = TypeVar("Told")


def wants_an_end(request: Request) -> bool:
    """Whether the header ``Prefer`` (RFC 7240) says so; it may hold other wishes, and come more than once."""
    wishes = ",".join(request.headers.getlist("prefer")).split(",")
    return any(wish.partition(";")[0].strip().lower() == WISH for wish in wishes)


def ends_with_client(request: Request, accepted: Accepted) -> bool:
    """Whether the run that this request brought about ends when its client hangs up."""
    return may_end_with(accepted) and wants_an_end(request)


async def told_or_gone(told: Coroutine[Any, Any, Told], receive: Receive) -> tuple[bool, Told | None]:
    """Wait for what the client waits for: true with it, or false as soon as the client is gone."""
    waiting = asyncio.ensure_future(told)
    leaving = asyncio.ensure_future(_until_disconnected(receive))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return (True, waiting.result()) if waiting.done() else (False, None)
    finally:
        waiting.cancel()
        leaving.cancel()
        await asyncio.gather(waiting, leaving, return_exceptions=True)


async def end_for_nobody(run: UUID, end: End) -> Response:
    """End the run of a client that is gone. Without Postgres it goes on, as it would have without the wish."""
    try:
        await end(run)
    except TryLater as fault:
        log.warning("run_not_ended", run=str(run), reason=str(fault))
    return Response(status_code=HUNG_UP)


class EndedWithItsClient(Response):
    """A stream whose run ends when its client goes before the last word was sent; not when we ourselves go."""

    def __init__(self, stream: Response, run: UUID, end: End) -> None:
        self.status_code = stream.status_code
        self.raw_headers = stream.raw_headers
        self.background = None
        self._stream = stream
        self._run = run
        self._end = end

    def last_words(self) -> bytes:
        """See ``EventStream.last_words``."""
        return self._stream.last_words() if isinstance(self._stream, EventStream) else b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything."""
        is_gone = is_told = False

        async def hear() -> Message:
            nonlocal is_gone
            message = await receive()
            # After the last word the server says the same of a client that is still there.
            is_gone = is_gone or (message["type"] == "http.disconnect" and not is_told)
            return message

        async def tell(message: Message) -> None:
            nonlocal is_told
            is_told = is_told or (message["type"] == "http.response.body" and not message.get("more_body", False))
            await send(message)

        await self._stream(scope, hear, tell)
        if is_gone:
            await end_for_nobody(self._run, self._end)


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
