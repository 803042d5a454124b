"""Who may come in: a bearer token, compared in constant time, on every operation that is not open."""

import hmac
from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from services.gateway.edge.operation import Operation
from shared.domain.api_key import OPERATOR, ApiKey
from shared.ports import dead_letters

KEY = "lucyd.key"


def key_of(request: Request) -> ApiKey:
    """Whose request it is. Only of operations that are not open."""
    key: ApiKey = request.scope[KEY]
    return key


def scope_of(scope: Scope) -> dead_letters.Scope:
    """What a route may show to the key of a request: its own things. To the operator's key also what came over no key
    at all, which nobody else could look after."""
    key: ApiKey = scope[KEY]
    return dead_letters.Scope(key.principal, keyless=key.is_operator)


class TokenDoor:
    """``Door`` of the directory. Without a token nothing is served but what is open."""

    def __init__(self, token: str | None) -> None:
        self._token = token.encode() if token else None
        self._usual = b"Bearer " + (self._token or b"")
        self._operator = ApiKey(OPERATOR)

    async def admit(self, scope: Scope, operation: Operation | None) -> Response | None:
        """See ``Door.admit``."""
        if operation is not None and operation.needs is None:
            return None
        if self._token is None:
            return JSONResponse({"error": "No auth token configured"}, status_code=503)
        if not self._admits(_header(scope["headers"])):
            return JSONResponse({"error": "unauthorized"}, status_code=401, headers={"WWW-Authenticate": "Bearer"})
        scope[KEY] = self._operator
        return None

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
