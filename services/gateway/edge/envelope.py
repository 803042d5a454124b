"""What every request goes through: an id, a trace, the agent's name, one line in the log, and errors in one shape."""

import os
import time
from collections.abc import Iterable

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.edge.bodies import Bodies
from services.gateway.edge.directory import dialect_at
from services.gateway.edge.door import KEY
from services.gateway.edge.meter import Meter
from services.gateway.edge.operation import Operation
from shared.domain.api_key import ApiKey
from shared.domain.trace_context import SPAN_BYTES, TRACE_BYTES, begun, carried_on, trace_id

log = structlog.get_logger(__name__)

LONGEST_ID = 128
OUR_FAULT = "internal error"
REQUEST_ID = b"x-request-id"
TRACEPARENT = b"traceparent"


class Envelope:
    """ASGI middleware: sets ``X-Request-Id``, ``traceparent`` and ``X-Lucyd-Agent``, meters and logs what was asked and
    how it ended, but never a body, nor a part of a path or of a query that a client chose.

    Handlers find the ``traceparent`` that holds from here on in the header of that name.
    """

    def __init__(self, app: ASGIApp, *, agent: str, meter: Meter, access_log: bool) -> None:
        self._app = app
        self._bodies = Bodies(agent)
        self._meter = meter
        self._say = log.info if access_log else log.debug
        # A header is latin-1; a name that is not stays in the JSON bodies only.
        fits = agent and agent.isascii() and agent.isprintable()
        self._agent = [(b"x-lucyd-agent", agent.encode())] if fits else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request inside the envelope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id, traceparent = _labels(scope["headers"])
        labels = [(REQUEST_ID, request_id.encode()), (TRACEPARENT, traceparent.encode()), *self._agent]
        scope["headers"] = [*(each for each in scope["headers"] if each[0] != TRACEPARENT), labels[1]]
        started = time.perf_counter()
        status, sent = 500, 0
        is_begun = False

        async def label(message: Message) -> None:
            nonlocal status, sent, is_begun
            if message["type"] == "http.response.start":
                status, is_begun = message["status"], True
                message["headers"] = [*message["headers"], *labels, *scope.get("lucyd.headers", ())]
            else:
                sent += len(message.get("body", b""))
            await send(message)

        self._meter.in_flight += 1
        try:
            await self._app(scope, receive, label)
        except Exception:
            found: Operation | None = scope.get("lucyd.operation")
            log.exception("request_failed", route=found.path if found else None, request_id=request_id)
            if is_begun:
                raise
            dialect = found.dialect if found else dialect_at(scope["path"])
            await self._bodies.problem(OUR_FAULT, 500, dialect=dialect, request_id=request_id)(scope, receive, label)
        finally:
            seconds = time.perf_counter() - started
            self._meter.in_flight -= 1
            operation: Operation | None = scope.get("lucyd.operation")
            route = operation.path if operation is not None else None
            self._meter.ended(scope["method"], route, status, seconds)
            key: ApiKey | None = scope.get(KEY)
            is_probe = operation is not None and operation.dialect == "plain"  # they come often, and say nothing new
            say = log.debug if is_probe else self._say
            say(
                "request",
                method=scope["method"],
                route=route,
                status=status,
                milliseconds=round(seconds * 1000, 1),
                bytes=sent,
                request_id=request_id,
                key=key.name if key else None,
                trace=trace_id(traceparent),
            )


def _labels(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, str]:
    """The request's id and its ``traceparent``: those that the caller chose, where they can go into logs and headers as
    they are; else new ones."""
    request_id, given, traces = "", None, 0
    for name, value in headers:
        if name == REQUEST_ID:
            text = value.decode("latin-1")
            request_id = text if len(text) <= LONGEST_ID and text.isascii() and text.isprintable() else ""
        elif name == TRACEPARENT:
            given, traces = value.decode("latin-1"), traces + 1
    chance = os.urandom(TRACE_BYTES + SPAN_BYTES + TRACE_BYTES)
    span = chance[TRACE_BYTES : TRACE_BYTES + SPAN_BYTES]
    carried = carried_on(given, span) if traces == 1 else None
    return request_id or chance[-TRACE_BYTES:].hex(), carried or begun(chance[:TRACE_BYTES], span)
