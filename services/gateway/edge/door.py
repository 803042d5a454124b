"""Who may come in: a bearer token on every operation that is not open, as often and for what its key may."""

import hmac
from collections.abc import Iterable
from contextlib import AbstractContextManager

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from services.gateway.actions.limit_requests import Turn, Turnstile
from services.gateway.actions.look_up_key import Keyring
from services.gateway.actions.watch_keys import Stay, Stays
from services.gateway.edge.bodies import Bodies
from services.gateway.edge.directory import dialect_at
from services.gateway.edge.operation import Dialect, Operation
from services.gateway.rules.login_address import login_address
from shared.domain.api_key import OPERATOR, ApiKey
from shared.errors import TryLater
from shared.ports import dead_letters

KEY = "lucyd.key"
HEADERS = "lucyd.headers"
"""Headers that the envelope adds to whatever is answered."""

TOO_OFTEN = "rate limit exceeded"


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
    """``Door`` of the directory: lets in the operator's token and the named keys of ``keyring``. Without an operator's
    token nothing is served but what is open.

    The operator's token is compared here, in constant time, and needs neither Postgres nor Redis.
    """

    def __init__(self, token: str | None, keyring: Keyring, turnstile: Turnstile, bodies: Bodies, stays: Stays) -> None:
        self._stays = stays
        self._token = token.encode() if token else None
        self._usual = b"Bearer " + (self._token or b"")
        self._operator = ApiKey(OPERATOR)
        self._keyring = keyring
        self._turnstile = turnstile
        self._bodies = bodies

    async def admit(self, scope: Scope, operation: Operation | None) -> Response | None:
        """See ``Door.admit``."""
        if operation is not None and operation.needs is None:
            return None
        dialect = operation.dialect if operation is not None else dialect_at(scope["path"])
        if self._token is None:
            return self._bodies.problem("No auth token configured", 503, dialect=_bare(dialect))
        header = _header(scope["headers"])
        try:
            key = await self._whose(header)
        except TryLater as fault:
            return self._bodies.error(fault, dialect=dialect)
        if key is None:
            return await self._refuse(scope, header, dialect)
        scope[KEY] = key
        turn = await self._turnstile.request(key, operation.counts_as if operation is not None else "read")
        if turn is not None:
            scope[HEADERS] = _told(turn)
            if not turn.passes:
                return self._come_later(turn, dialect)
        if operation is not None and not key.scopes.intersection(operation.scopes):
            needs = " or ".join(operation.scopes)
            return self._bodies.problem(f"this key may not do that (needs {needs})", 403, dialect=dialect)
        return None

    def stay(self, scope: Scope) -> AbstractContextManager[Stay] | None:
        """See ``Door.stay``."""
        key: ApiKey | None = scope.get(KEY)
        if key is None or key.is_operator:
            return None
        return self._stays.of(_header(scope["headers"]).partition(b" ")[2].strip())

    def turn_out(self, scope: Scope, operation: Operation | None) -> Response:
        """See ``Door.turn_out``."""
        return self._unauthorized(operation.dialect if operation is not None else dialect_at(scope["path"]))

    async def _whose(self, header: bytes) -> ApiKey | None:
        """Raises ``TryLater``."""
        if self._token is None:
            return None
        if hmac.compare_digest(header, self._usual):
            return self._operator
        scheme, _, given = header.partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        given = given.strip()
        # Bytes are compared as they came: nothing that somebody typed fails here.
        return self._operator if hmac.compare_digest(given, self._token) else await self._keyring.find(given)

    async def _refuse(self, scope: Scope, header: bytes, dialect: Dialect) -> Response:
        """Who brings no token guesses nothing; who guesses too often is told to wait, and a good token is taken all the
        same."""
        if header:
            client = scope.get("client")
            turn = await self._turnstile.failed_login(login_address(client[0] if client else None))
            if turn is not None and not turn.passes:
                return self._come_later(turn, dialect)
        return self._unauthorized(dialect)

    def _unauthorized(self, dialect: Dialect) -> Response:
        challenge = {"WWW-Authenticate": "Bearer"}
        return self._bodies.problem("unauthorized", 401, dialect=_bare(dialect), headers=challenge)

    def _come_later(self, turn: Turn, dialect: Dialect) -> Response:
        after = {"Retry-After": str(max(1, turn.frees_in))}
        return self._bodies.problem(TOO_OFTEN, 429, dialect=dialect, headers=after)


def _told(turn: Turn) -> list[tuple[bytes, bytes]]:
    return [
        (b"ratelimit-limit", b"%d" % turn.limit),
        (b"ratelimit-remaining", b"%d" % turn.left),
        (b"ratelimit-reset", b"%d" % turn.frees_in),
    ]


def _bare(dialect: Dialect) -> Dialect:
    """Strangers are not told the agent's name."""
    return "plain" if dialect == "lucyd" else dialect


def _header(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    for name, value in headers:
        if name == b"authorization":
            return value
    return b""
