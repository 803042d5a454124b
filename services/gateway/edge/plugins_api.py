"""Plugins, as the workers that have loaded them tell."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.bodies import Bodies
from services.gateway.edge.operation import Operation, Reply
from services.gateway.ports import MonitorBoard
from services.gateway.rules.plugin_list import plugin_list
from services.gateway.rules.record_shapes import PluginReply, PluginsReply
from services.gateway.rules.reply_shapes import Problem

TAG = "the house"


@dataclass(frozen=True, slots=True)
class PluginsApi:
    """``/api/v1/plugins``."""

    board: MonitorBoard
    bodies: Bodies

    def operations(self) -> list[Operation]:
        """What they do."""
        return [
            Operation(
                "GET", "/api/v1/plugins", self.plugins, "read", "plugins of the workers that live",
                {200: Reply("them", PluginsReply)}, tag=TAG,
            ),
            Operation(
                "GET", "/api/v1/plugins/{name}/health", self.health, "read", "how a plugin is",
                {200: Reply("the plugin", PluginReply), 404: Reply("no such plugin", Problem)}, tag=TAG,
            ),
        ]  # fmt: skip

    async def plugins(self, _: Request) -> Response:
        """All of them."""
        return self.bodies.json({"plugins": plugin_list(await self.board.processes())})

    async def health(self, request: Request) -> Response:
        """One of them."""
        name = request.path_params["name"]
        for plugin in plugin_list(await self.board.processes()):
            if plugin["name"] == name:
                return self.bodies.json(plugin)
        return self.bodies.json({"error": "no such plugin"}, 404)
