"""What operators look at: status, costs, monitor."""

import os
from dataclasses import dataclass
from decimal import Decimal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from services.gateway.edge.bodies import Bodies
from services.gateway.ports import MonitorBoard
from services.gateway.rules.chat_request import read_period
from services.gateway.rules.lucyd_dialect import cost_body, monitor_body
from shared.errors import LucydError
from shared.ports.clock import Clock
from shared.ports.history import History

STATUS = "/api/v1/status"


@dataclass(frozen=True, slots=True)
class OperatorApi:
    """``started`` is the clock's monotonic time at the start of this gateway."""

    history: History
    board: MonitorBoard
    bodies: Bodies
    clock: Clock
    started: float
    models: tuple[str, ...]
    primary: str
    version: str

    def routes(self) -> list[Route]:
        """Where they are."""
        return [
            Route(STATUS, self.status, methods=["GET"]),
            Route("/api/v1/cost", self.cost, methods=["GET"]),
            Route("/api/v1/monitor", self.monitor, methods=["GET"]),
        ]

    async def status(self, _: Request) -> Response:
        """How the whole is; open to everybody, as in the original, so it tells nothing about anybody."""
        try:
            counts = await self.history.counts()
            today = await self.history.costs("today")
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json(
            {
                "status": "ok",
                "pid": os.getpid(),
                "uptime_seconds": round(self.clock.monotonic() - self.started),
                "channel": "http",
                "models": list(self.models),
                "model": self.primary,
                "today_cost": float(round(sum((cost.cost for cost in today), Decimal(0)), 4)),
                "version": self.version,
                **counts,
            }
        )

    async def cost(self, request: Request) -> Response:
        """Costs of a period by model."""
        try:
            period = read_period(request.query_params.get("period"))
            return self.bodies.json(cost_body(period, await self.history.costs(period)))
        except LucydError as fault:
            return self.bodies.error(fault)

    async def monitor(self, _: Request) -> Response:
        """What is going on, and which processes live."""
        try:
            return self.bodies.json(monitor_body(await self.board.sessions(), await self.board.processes()))
        except LucydError as fault:
            return self.bodies.error(fault)
