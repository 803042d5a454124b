"""What every request goes through: an id, the agent's name, one log event, and errors in one shape."""

import time
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = structlog.get_logger(__name__)

LONGEST_ID = 128


class Envelope:
    """ASGI middleware: sets ``X-Request-Id`` and ``X-Lucyd-Agent``, logs path and status but never a body."""

    def __init__(self, app: ASGIApp, *, agent: str) -> None:
        self._app = app
        # A header is latin-1; a name that is not stays in the JSON bodies only.
        self._agent = agent if agent.isascii() and agent.isprintable() else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request inside the envelope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if 0 < len(given) <= LONGEST_ID and given.isascii() and given.isprintable() else uuid4().hex
        started = time.perf_counter()
        status = 500
        begun = False

        async def label(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                if self._agent:
                    headers["X-Lucyd-Agent"] = self._agent
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
