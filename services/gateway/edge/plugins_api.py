"""Plugins: none is loaded by this version, and that is what is told."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.bodies import Bodies
from services.gateway.edge.operation import Operation, Reply
from services.gateway.rules.record_shapes import PluginsReply
from services.gateway.rules.reply_shapes import Problem

TAG = "the house"


@dataclass(frozen=True, slots=True)
class PluginsApi:
    """``/api/v1/plugins``."""

    bodies: Bodies

    def operations(self) -> list[Operation]:
        """What they do."""
        return [
            Operation(
                "GET", "/api/v1/plugins", self.plugins, "read", "plugins that are loaded",
                {200: Reply("them", PluginsReply)}, tag=TAG,
            ),
            Operation(
                "GET", "/api/v1/plugins/{name}/health", self.health, "read", "how a plugin is",
                {404: Reply("no such plugin", Problem)}, tag=TAG,
            ),
        ]  # fmt: skip

    async def plugins(self, _: Request) -> Response:
        """None."""
        return self.bodies.json({"plugins": []})

    async def health(self, _: Request) -> Response:
        """There is none that could be asked."""
        return self.bodies.json({"error": "no such plugin"}, 404)
