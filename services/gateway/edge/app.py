"""The ASGI application: routes inside bearer inside envelope."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from services.gateway.edge.bearer import BearerToken
from services.gateway.edge.bodies import Bodies
from services.gateway.edge.directory import Directory
from services.gateway.edge.envelope import Envelope
from services.gateway.edge.operator_api import STATUS

OPEN_PATHS = ("/healthz", "/readyz", STATUS)


def gateway_app(routes: Sequence[Route], bodies: Bodies, *, agent: str, token: str | None) -> ASGIApp:
    """The whole gateway; errors of the framework come in our shape too."""

    async def refused(_: Request, fault: Exception) -> Response:
        status = fault.status_code if isinstance(fault, HTTPException) else 500
        headers = dict(fault.headers or {}) if isinstance(fault, HTTPException) else {}
        words = {404: "not found", 405: "method not allowed"}
        return bodies.json({"error": words.get(status, "refused")}, status, headers)

    others = Starlette(exception_handlers={HTTPException: refused}, routes=list(routes))
    return Envelope(BearerToken(Directory(routes, others), token=token, open_paths=OPEN_PATHS), agent=agent)
