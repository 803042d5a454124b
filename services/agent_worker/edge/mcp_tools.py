"""Tools of MCP servers, as the worker's toolbox takes them."""

from collections.abc import Mapping, Sequence
from typing import Any

from services.agent_worker.ports import Pictured, Tool, ToolFailed, ToolUse
from shared.domain.effect import ToolSpec
from shared.domain.mcp_tool import OfferedTool
from shared.ports.mcp_servers import CallFailed, McpServers


class McpTools:
    """A source of tools: those that servers offer now."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers
        self._known: dict[str, McpTool] = {}

    def tools(self) -> Sequence[Tool]:
        """In the order of the servers' names, then of their own."""
        return [self._tool(offered) for offered in self._servers.tools()]

    def _tool(self, offered: OfferedTool) -> "McpTool":
        """The same one as long as it is told of in the same words: this is asked at every use of any tool."""
        known = self._known.get(offered.spec.name)
        if known is None or known.offered is not offered:
            known = self._known[offered.spec.name] = McpTool(offered, self._servers)
        return known


class McpTool:
    """One tool of a server."""

    def __init__(self, offered: OfferedTool, servers: McpServers) -> None:
        self.offered = offered
        self._servers = servers

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return self.offered.spec

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str | Pictured:
        """What the server answered, and its images. Raises ``ToolFailed`` with what it says when it failed."""
        try:
            answer = await self._servers.call(self.offered, arguments)
        except CallFailed as fault:
            raise ToolFailed(str(fault)) from fault
        if answer.is_error:
            raise ToolFailed(answer.text)
        return Pictured(answer.text, answer.images) if answer.images else answer.text
