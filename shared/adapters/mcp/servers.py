"""All servers of the Model Context Protocol. The SDK takes a second to load, and is loaded only for a server."""

import asyncio
import importlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import structlog

from shared.adapters.mcp.patience import Patience
from shared.domain.mcp_server import McpServer, ServerState
from shared.domain.mcp_tool import OfferedTool
from shared.ports.mcp_servers import Answered, CallFailed

if TYPE_CHECKING:
    from shared.adapters.mcp.connection import Connection

log = structlog.get_logger(__name__)


class ConnectedServers:
    """The port, over real servers; each lives in a task of its own while ``live`` runs."""

    def __init__(self, servers: Sequence[McpServer], *, patience: Patience | None = None) -> None:
        self._patience = patience or Patience()
        self._servers = sorted(servers, key=lambda each: each.name)
        self._connections: dict[str, Connection] = {}
        self._loaded = asyncio.Event()
        self._broken = ""

    async def live(self) -> None:
        """Connect and stay connected, until cancelled. Never ends by itself, whatever the servers do."""
        try:
            # In a thread: everything else in this process goes on meanwhile.
            module = await asyncio.to_thread(importlib.import_module, "shared.adapters.mcp.connection")
        except ImportError as fault:
            self._broken = f"the package mcp can't be loaded: {fault.name}"
            log.exception("mcp_not_loaded")
            self._loaded.set()
            await asyncio.Event().wait()
            return
        for server in self._servers:
            if server.enabled:
                self._connections[server.name] = module.Connection(
                    server, version=version("lucyd"), patience=self._patience
                )
        self._loaded.set()
        async with asyncio.TaskGroup() as tasks:
            for connection in self._connections.values():
                tasks.create_task(connection.live())
            try:
                await asyncio.Event().wait()
            finally:
                for connection in self._connections.values():
                    connection.ending = True

    async def tried(self, within: timedelta) -> None:
        """Wait until each server has been connected with, or could not be, once; not longer than that."""
        async with asyncio.timeout(within.total_seconds()):
            await self._loaded.wait()
            for connection in self._connections.values():
                await connection.tried.wait()

    @property
    def told(self) -> str:
        """All of them in a line, for the monitor."""
        return ", ".join(
            f"{state.name} {state.condition}" + (f" {state.tools}" if state.condition == "up" else "")
            for state in self.states()
        )

    def states(self) -> Sequence[ServerState]:
        """How each is doing, in the order of their names."""
        return [self._state(server) for server in self._servers]

    def tools(self) -> Sequence[OfferedTool]:
        """What is offered now: by the servers' names, then by the tools'."""
        return [tool for connection in self._connections.values() for tool in connection.tools()]

    async def call(self, tool: OfferedTool, arguments: Mapping[str, Any]) -> Answered:
        """Use a tool. Raises ``CallFailed``."""
        connection = self._connections.get(tool.server)
        if connection is None:
            raise CallFailed(f"The MCP server '{tool.server}' is not connected")
        return await connection.call(tool, arguments)

    def _state(self, server: McpServer) -> ServerState:
        if not server.enabled:
            return ServerState(server.name, "off")
        if self._broken:
            return ServerState(server.name, "away", self._broken)
        connection = self._connections.get(server.name)
        return connection.state() if connection else ServerState(server.name, "starting")
