"""``/healthz`` and ``/readyz``: for those who start, stop and watch processes, and have no key."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from services.gateway.edge.operation import Operation, Reply
from services.gateway.ports import Ready
from services.gateway.rules.reply_shapes import Health, Readiness

TAG = "the house"


@dataclass(frozen=True, slots=True)
class HealthApi:
    """The two; ``ready`` answers whether this process can do its work, and each of its checks."""

    service: str
    ready: Ready

    def operations(self) -> list[Operation]:
        """What they do."""
        return [
            Operation(
                "GET", "/healthz", self.healthz, None, "the process runs", {200: Reply("it does", Health)},
                dialect="plain", tag=TAG,
            ),
            Operation(
                "GET", "/readyz", self.readyz, None, "it can do its work",
                {200: Reply("it can", Readiness), 503: Reply("it can not", Readiness)}, dialect="plain", tag=TAG,
            ),
        ]  # fmt: skip

    async def healthz(self, _: Request) -> Response:
        """Answers for as long as the event loop turns."""
        return JSONResponse({"status": "ok", "service": self.service})

    async def readyz(self, _: Request) -> Response:
        """Asks everything it depends on."""
        ready, answers = await self.ready()
        body = {"status": "ready" if ready else "not ready", "service": self.service, "checks": answers}
        return JSONResponse(body, status_code=200 if ready else 503)
