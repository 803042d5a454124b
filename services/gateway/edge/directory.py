"""From a path to what answers it, without asking every route in turn."""

from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

Answer = Callable[[Request], Awaitable[Response]]


class Directory:
    """ASGI application: what a route answers, called with nothing in between; all else (404, 405) is ``others``'s.

    Routes without a parameter are found at once; the few others by their pattern, in order.
    """

    def __init__(self, routes: Sequence[Route], others: ASGIApp) -> None:
        self._others = others
        self._fixed: dict[tuple[str, str], Answer] = {}
        self._patterns: list[Route] = []
        for route in routes:
            if route.param_convertors:
                self._patterns.append(route)
                continue
            for method in route.methods or ():
                self._fixed.setdefault((method, route.path), route.endpoint)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and end when the answer is sent."""
        answer = self._find(scope) if scope["type"] == "http" else None
        if answer is None:
            await self._others(scope, receive, send)
            return
        response = await answer(Request(scope, receive, send))
        await response(scope, receive, send)

    def _find(self, scope: Scope) -> Answer | None:
        method, path = scope["method"], scope["path"]
        if (fixed := self._fixed.get((method, path))) is not None:
            return fixed
        for route in self._patterns:
            if method in (route.methods or ()) and (found := route.path_regex.match(path)) is not None:
                scope["path_params"] = found.groupdict()
                answer: Answer = route.endpoint
                return answer
        return None
