"""``/healthz`` (the process runs) and ``/readyz`` (it can do its work, each dependency named)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from shared.adapters.http.metrics_page import MEDIA_TYPE
from shared.errors import LucydError

Check = Callable[[], Awaitable[str]]
"""Answers ``ok`` or a short sentence about what is wrong; whatever it raises counts as wrong."""

CHECK_WITHIN = timedelta(seconds=2)


async def readiness(checks: Mapping[str, Check]) -> tuple[bool, dict[str, str]]:
    """All checks at once, each bounded."""

    async def ask(check: Check) -> str:
        try:
            async with asyncio.timeout(CHECK_WITHIN.total_seconds()):
                return await check()
        except TimeoutError:
            return "no answer"
        except LucydError as fault:
            return str(fault)
        except Exception as fault:  # noqa: BLE001 - whatever is wrong with a dependency is its state, not our crash
            return type(fault).__name__

    answers = dict(zip(checks, await asyncio.gather(*map(ask, checks.values())), strict=True))
    return all(answer == "ok" for answer in answers.values()), answers


def health_app(service: str, checks: Mapping[str, Check], metrics: Callable[[], bytes]) -> Starlette:
    """Nothing but these and ``/metrics``; for services without an HTTP face."""

    async def healthz(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "service": service})

    async def readyz(_: Request) -> JSONResponse:
        ready, answers = await readiness(checks)
        body = {"status": "ready" if ready else "not ready", "service": service, "checks": answers}
        return JSONResponse(body, status_code=200 if ready else 503)

    async def figures(_: Request) -> Response:
        return Response(metrics(), media_type=MEDIA_TYPE)

    routes = {"/healthz": healthz, "/readyz": readyz, "/metrics": figures}
    return Starlette(routes=[Route(path, answer) for path, answer in routes.items()])
