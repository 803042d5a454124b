"""Runs by session and state."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.bodies import Bodies
from services.gateway.edge.door import key_of, scope_of
from services.gateway.edge.operation import Operation, Reply
from services.gateway.rules.lucyd_dialect import run_body
from services.gateway.rules.record_request import RunsQuery
from services.gateway.rules.record_shapes import RunsReply
from services.gateway.rules.request_body import read_as
from shared.errors import LucydError
from shared.ports.records import Records, Whose


def own(request: Request) -> Whose:
    """What a request may look at: what is its key's own; the operator's also what came over no key."""
    scope = scope_of(request.scope)
    return Whose(scope.principal, scope.keyless)


def all_or_own(request: Request) -> Whose:
    """Everybody's for the operator, who pays for all of it; for other keys their own."""
    key = key_of(request)
    return Whose(None) if key.is_operator else Whose(key.principal)


@dataclass(frozen=True, slots=True)
class RecordsApi:
    """``/api/v1/runs``."""

    records: Records
    bodies: Bodies

    def operations(self) -> list[Operation]:
        """What they do."""
        return [
            Operation(
                "GET", "/api/v1/runs", self.runs, "read", "runs, the newest first",
                {200: Reply("them", RunsReply)}, query=RunsQuery,
            ),
        ]  # fmt: skip

    async def runs(self, request: Request) -> Response:
        """Runs of the key, the newest first."""
        try:
            asked = read_as(RunsQuery, dict(request.query_params))
            found = await self.records.runs(own(request), session=asked.session, state=asked.state, limit=asked.limit)
        except LucydError as fault:
            return self.bodies.error(fault)
        return self.bodies.json({"runs": [run_body(run) for run in found]})
