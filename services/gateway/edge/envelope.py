"""What every request goes through: an id, the agent's name, one log event, and errors in one shape."""

import os
import time
from collections.abc import Iterable

import structlog
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = structlog.get_logger(__name__)

LONGEST_ID = 128


class Envelope:
    """ASGI middleware: sets ``X-Request-Id`` and ``X-Lucyd-Agent``, logs path and status but never a body."""

    def __init__(self, app: ASGIApp, *, agent: str) -> None:
        self._app = app
        # A header is latin-1; a name that is not stays in the JSON bodies only.
        fits = agent and agent.isascii() and agent.isprintable()
        self._agent = [(b"x-lucyd-agent", agent.encode())] if fits else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request inside the envelope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _given_id(scope["headers"]) or os.urandom(16).hex()
        started = time.perf_counter()
        status = 500
        begun = False

        async def label(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                labels = [(b"x-request-id", request_id.encode()), *self._agent]
                message["headers"] = [*message["headers"], *labels, *scope.get("lucyd.headers", ())]
            await send(message)

        try:
            await self._app(scope, receive, label)
        except Exception:
            log.exception("request_failed", path=scope["path"], request_id=request_id)
            if begun:
                raise
            body = {"error": "internal error", "request_id": request_id}
            await JSONResponse(body, status_code=500)(scope, receive, label)
        finally:
            milliseconds = round((time.perf_counter() - started) * 1000, 1)
            log.debug(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status,
                milliseconds=milliseconds,
                request_id=request_id,
            )


def _given_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The id that the caller chose, if it can go into logs and headers as it is; else nothing."""
    for name, value in headers:
        if name == b"x-request-id":
            given = value.decode("latin-1")
            return given if len(given) <= LONGEST_ID and given.isascii() and given.isprintable() else ""
    return ""
