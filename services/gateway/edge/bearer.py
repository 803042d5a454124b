"""Who may come in: one bearer token, compared in constant time, on every route that is not open."""

import hmac
from collections.abc import Collection, Iterable

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.ports import dead_letters

KEY_NAME = "default"
"""The name of the one key there is so far; conversations and costs carry it. It is the operator's."""


def scope_of(scope: Scope) -> dead_letters.Scope:
    """What an operator's route may show to the key of a request: its own things. To the operator's key also what came
    over no key at all, which nobody else could look after."""
    name: str = scope["lucyd.key"]
    return dead_letters.Scope(f"key:{name}", keyless=name == KEY_NAME)


class BearerToken:
    """ASGI middleware. Without a token nothing is served but the open paths."""

    def __init__(self, app: ASGIApp, *, token: str | None, open_paths: Collection[str]) -> None:
        self._app = app
        self._token = token.encode() if token else None
        self._usual = b"Bearer " + (self._token or b"")
        self._open = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let through, or answer 401 or 503."""
        if scope["type"] != "http" or scope["path"] in self._open:
            await self._app(scope, receive, send)
            return
        if self._token is None:
            response = JSONResponse({"error": "No auth token configured"}, status_code=503)
        elif not self._admits(_header(scope["headers"])):
            headers = {"WWW-Authenticate": "Bearer"}
            response = JSONResponse({"error": "unauthorized"}, status_code=401, headers=headers)
        else:
            scope["lucyd.key"] = KEY_NAME
            await self._app(scope, receive, send)
            return
        await response(scope, receive, send)

    def _admits(self, header: bytes) -> bool:
        if self._token is None:
            return False
        if hmac.compare_digest(header, self._usual):
            return True
        scheme, _, given = header.partition(b" ")
        # Bytes are compared as they came: nothing that somebody typed fails here.
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token)


def _header(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    for name, value in headers:
        if name == b"authorization":
            return value
    return b""
