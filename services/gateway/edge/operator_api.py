"""What operators look at: status, costs, monitor."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import cast
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.actions.glance import Glance
from services.gateway.actions.take_stock import StockTaker
from services.gateway.edge.bodies import Bodies
from services.gateway.edge.door import key_of
from services.gateway.edge.operation import Operation, Reply
from services.gateway.edge.records_api import all_or_own
from services.gateway.ports import MonitorBoard
from services.gateway.rules.chat_request import CostQuery
from services.gateway.rules.lucyd_dialect import bill_body, cost_body, monitor_body, newest_session
from services.gateway.rules.record_request import month_of
from services.gateway.rules.reply_shapes import CostReply, MonitorReply, StatusReply
from services.gateway.rules.request_body import read_as
from shared.errors import LucydError, TryLater
from shared.ports.clock import Clock
from shared.ports.history import History, Period
from shared.ports.records import Records, Turns

STATUS = "/api/v1/status"
TAG = "the house"
MOST_CALLS = 5000
"""Of a month's single calls, the newest."""


async def look_at_house(history: History) -> tuple[Mapping[str, int], Decimal]:
    """What is under way, and what was spent today. Raises ``TryLater``."""
    counts = await history.counts()
    return counts, sum((cost.cost for cost in await history.costs("today")), Decimal(0))


@dataclass(frozen=True, slots=True)
class OperatorApi:
    """``started`` is the clock's monotonic time at the start of this gateway; ``glance`` is ``look_at_house``, for all
    who ask for the status."""

    history: History
    records: Records
    board: MonitorBoard
    bodies: Bodies
    clock: Clock
    started: float
    models: tuple[str, ...]
    primary: str
    version: str
    glance: Glance[tuple[Mapping[str, int], Decimal]]
    stock: StockTaker

    def operations(self) -> list[Operation]:
        """What they do."""
        return [
            Operation("GET", STATUS, self.status, None, "how the whole is", {200: Reply("it", StatusReply)}, tag=TAG),
            Operation(
                "GET", "/api/v1/cost", self.cost, "read", "costs by model",
                {200: Reply("them", CostReply)}, query=CostQuery, tag=TAG,
            ),
            Operation(
                "GET", "/api/v1/monitor", self.monitor, "read", "what goes on, who lives",
                {200: Reply("as far as Redis knows", MonitorReply)}, tag=TAG,
            ),
        ]  # fmt: skip

    async def status(self, _: Request) -> Response:
        """How the whole is; open to everybody, as in the original, so it tells nothing about anybody."""
        try:
            counts, today = await self.glance.seen()
            await self.stock.refresh()
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
                "today_cost": float(round(today, 4)),
                "version": self.version,
                "error_counts": dict(self.stock.figures.get("dead_letters", {})),
                **counts,
            }
        )

    async def cost(self, request: Request) -> Response:
        """Costs of a period by model: the key's own, of the whole house for the operator."""
        try:
            period = read_as(CostQuery, dict(request.query_params)).period
            month, whose = month_of(period), all_or_own(request)
            if month is None:
                costs = await self.history.costs(cast(Period, period), principal=whose.principal)
                return self.bodies.json(cost_body(period, costs))
            bill = await self.records.bill(whose, month=month, limit=MOST_CALLS)
            return self.bodies.json(bill_body(period, bill, limit=MOST_CALLS))
        except LucydError as fault:
            return self.bodies.error(fault)

    async def monitor(self, request: Request) -> Response:
        """What is going on in the key's conversations; for who looks after the house also which processes live."""
        key = key_of(request)
        try:
            sessions = [one for one in await self.board.sessions() if key.sees(one.get("principal", ""))]
            processes = await self.board.processes() if "admin" in key.scopes else ()
            turns = await self._turns(newest_session(sessions))
            return self.bodies.json(monitor_body(sessions, processes, turns))
        except LucydError as fault:
            return self.bodies.error(fault)

    async def _turns(self, session: Mapping[str, str] | None) -> Turns | None:
        """Of the run that a session shows. Who looks what goes on while Postgres is away sees the rest."""
        if session is None or not session.get("run_id"):
            return None
        try:
            return await self.records.turns(UUID(session["run_id"]))
        except TryLater:
            return None
