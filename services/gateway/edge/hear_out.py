"""Who is answered before they have said all is heard out for a moment, or the answer would not arrive."""

import asyncio
import contextlib
from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEARD_FOR = 5.0
"""Seconds in which the rest of a body is read and thrown away."""


class HearsOut:
    """ASGI middleware: a connection that ends with its answer ends when the request has come whole, or ``heard_for`` so
    many seconds.

    Closed at once, with bytes of the request unread, it would be reset, and a client that still sends loses what was
    answered. Connections that stay open need none of this: the server reads on.
    """

    def __init__(self, app: ASGIApp, *, heard_for: float = HEARD_FOR) -> None:
        self._app = app
        self._heard_for = heard_for

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, and then its last byte."""
        if scope["type"] != "http" or not _may_be_cut_short(scope["http_version"], scope["headers"]):
            await self._app(scope, receive, send)
            return
        is_heard = is_told = False

        async def hear() -> Message:
            nonlocal is_heard
            message = await receive()
            is_heard = is_heard or message["type"] != "http.request" or not message.get("more_body", False)
            return message

        async def tell(message: Message) -> None:
            nonlocal is_told
            if message["type"] == "http.response.body" and not message.get("more_body", False) and not is_heard:
                is_told, message = True, {**message, "more_body": True}
            await send(message)

        await self._app(scope, hear, tell)
        if is_told:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._heard_for):
                    while not is_heard:
                        await hear()
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _may_be_cut_short(version: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the request has a body, and its connection ends with the answer."""
    has_body, ends = False, version == "1.0"
    for name, value in headers:
        if name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
            has_body = True
        elif name == b"connection" and b"close" in value.lower():
            ends = True
    return has_body and ends
