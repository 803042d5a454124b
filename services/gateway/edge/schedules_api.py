"""Schedules: the list, and taking one back."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.bodies import Bodies
from services.gateway.edge.operation import Operation, Reply
from services.gateway.edge.records_api import own
from services.gateway.rules.reply_shapes import Problem
from services.gateway.rules.request_body import read_as
from services.gateway.rules.schedule_request import (
    SCHEDULE_PARTS,
    ScheduleCancelledReply,
    SchedulesQuery,
    SchedulesReply,
    schedule_body,
)
from shared.domain.schedule import schedule_id, schedule_name
from shared.errors import Conflict, LucydError, NotFound
from shared.ports.schedules import Schedules

TAG = "schedules"
UNKNOWN = "nothing of that id is scheduled"
TOO_LATE = {"fired": "it has happened already", "failed": "it has failed, and will not come"}


@dataclass(frozen=True, slots=True)
class SchedulesApi:
    """The routes under ``/api/v1/schedules``."""

    schedules: Schedules
    bodies: Bodies

    def operations(self) -> list[Operation]:
        """What they do."""
        refused = {404: Reply(UNKNOWN, Problem), 409: Reply("it is too late", Problem)}
        return [
            Operation(
                "GET", "/api/v1/schedules", self.list, "read", "reminders, tasks and messages for later",
                {200: Reply("them", SchedulesReply)}, query=SchedulesQuery, tag=TAG,
            ),
            Operation(
                "DELETE", "/api/v1/schedules/{id}", self.cancel, "chat", "cancel one",
                {200: Reply("it will not come", ScheduleCancelledReply), **refused},
                parts=SCHEDULE_PARTS, counts_as="work", tag=TAG,
            ),
        ]  # fmt: skip

    async def list(self, request: Request) -> Response:
        """Those of the key, the newest first."""
        try:
            asked = read_as(SchedulesQuery, dict(request.query_params))
            found = await self.schedules.listed(own(request), state=asked.state, limit=asked.limit)
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json({"schedules": [schedule_body(each) for each in found]})

    async def cancel(self, request: Request) -> Response:
        """Never; asked again, the same is answered."""
        try:
            name = request.path_params["id"]
            id = schedule_id(name)
            if id is None or schedule_name(id) != name:
                raise NotFound(UNKNOWN)
            status = await self.schedules.cancel(id, own(request))
            if status == "unknown":
                raise NotFound(UNKNOWN)
            if status != "cancelled":
                raise Conflict(TOO_LATE[status])
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json({"cancelled": True, "id": name})
