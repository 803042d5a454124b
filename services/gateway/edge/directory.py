"""From a path to what answers it, past the door; errors leave in one shape."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from services.gateway.actions.watch_keys import Stay
from services.gateway.edge.bodies import Bodies
from services.gateway.edge.event_stream import EventStream
from services.gateway.edge.hang_up import EndedWithItsClient
from services.gateway.edge.operation import Dialect, Operation
from shared.errors import LucydError

NO_ROUTE = "not found"
OTHER_METHODS = "method not allowed"
OPENAI_PATHS = "/v1/"
SLASH = b"%2F"
"""A slash that stands in a part of a path, and parts nothing."""


def dialect_at(path: str) -> Dialect:
    """In which shape errors are told at a path of which no operation says so."""
    return "openai" if path.startswith(OPENAI_PATHS) else "lucyd"


class Door(Protocol):
    """Who may come in."""

    async def admit(self, scope: Scope, operation: Operation | None) -> Response | None:
        """Nothing: the request may pass, and ``scope["lucyd.key"]`` says whose it is; or what it is answered.

        ``operation`` is ``None`` where there is nothing at this path.
        """
        ...

    def stay(self, scope: Scope) -> AbstractContextManager[Stay] | None:
        """How long whom ``admit`` has let in may stay; ``None``: for as long as it takes."""
        ...

    def turn_out(self, scope: Scope, operation: Operation | None) -> Response:
        """What is answered to who may stay no longer and has no answer yet."""
        ...


class Directory:
    """ASGI application: finds the operation, asks the door, and sends what the operation answers.

    Paths without a part that changes are found at once; the few others by their pattern, in order.
    """

    def __init__(self, operations: Sequence[Operation], door: Door, bodies: Bodies) -> None:
        self._door = door
        self._bodies = bodies
        self._fixed: dict[str, dict[str, Operation]] = {}
        self._patterns: list[tuple[re.Pattern[str], dict[str, Operation]]] = []
        known: dict[str, dict[str, Operation]] = {}
        for operation in operations:
            methods = known.get(operation.path)
            if methods is None:
                methods = known[operation.path] = {}
                if operation.is_fixed:
                    self._fixed[operation.path] = methods
                else:
                    self._patterns.append((operation.pattern(), methods))
            methods[operation.method] = operation
            if operation.method == "GET":
                methods["HEAD"] = operation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and end when the answer is sent."""
        if scope["type"] != "http":
            return  # no WebSockets are spoken here; the server refuses them
        methods = self._find(scope)
        operation = methods.get(scope["method"]) if methods else None
        scope["lucyd.operation"] = operation
        response = await self._door.admit(scope, operation)
        stay = self._door.stay(scope) if response is None else None
        if stay is not None:
            await self._answer_while(stay, scope, receive, send, methods)
            return
        if response is None:
            response = await self._answer(Request(scope, receive, send), operation, methods)
        await response(scope, receive, send)

    async def _answer_while(
        self,
        stays: AbstractContextManager[Stay],
        scope: Scope,
        receive: Receive,
        send: Send,
        methods: dict[str, Operation] | None,
    ) -> None:
        """The answer, or its end when its key is revoked meanwhile: what runs goes on, as for who hangs up."""
        operation, is_begun, is_told, last_words = scope["lucyd.operation"], False, False, b""

        async def tell(message: Message) -> None:
            nonlocal is_begun, is_told
            is_begun, is_told = True, message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        with stays as stay:
            try:
                response = await self._answer(Request(scope, receive, send), operation, methods)
                await response(scope, receive, tell)
            except asyncio.CancelledError:
                if not stay.was_ended():
                    raise
                if is_begun and isinstance(response, EventStream | EndedWithItsClient):
                    last_words = response.last_words()
            else:
                return
        if is_told:
            return
        if is_begun:
            await send({"type": "http.response.body", "body": last_words, "more_body": False})
        else:
            await self._door.turn_out(scope, operation)(scope, receive, send)

    async def _answer(
        self, request: Request, operation: Operation | None, methods: dict[str, Operation] | None
    ) -> Response:
        if operation is not None:
            try:
                return await operation.answer(request)
            except LucydError as fault:
                return self._bodies.error(fault, dialect=operation.dialect)
        dialect = dialect_at(request.scope["path"])
        if methods:
            allow = {"Allow": ", ".join(sorted(methods))}
            return self._bodies.problem(OTHER_METHODS, 405, dialect=dialect, headers=allow)
        return self._bodies.problem(NO_ROUTE, 404, dialect=dialect)

    def _find(self, scope: Scope) -> dict[str, Operation] | None:
        path = scope["path"]
        if (fixed := self._fixed.get(path)) is not None:
            return fixed
        raw_path: bytes = scope.get("raw_path") or b""
        has_slash_in_part = SLASH in raw_path.upper()
        if has_slash_in_part:  # in the path that the server has read it looks like those between parts
            path = raw_path.decode("latin-1")
        for pattern, methods in self._patterns:
            if (found := pattern.match(path)) is not None:
                parts = found.groupdict()
                scope["path_params"] = {n: unquote(part) for n, part in parts.items()} if has_slash_in_part else parts
                return methods
        return None
