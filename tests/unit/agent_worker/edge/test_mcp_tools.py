"""Tools of MCP servers, as the toolbox sees them."""

from collections.abc import Mapping, Sequence
from typing import Any

from services.agent_worker.edge.mcp_tools import McpTools
from services.agent_worker.edge.toolbox import LocalToolbox
from services.agent_worker.ports import ToolUse
from shared.domain.effect import ToolSpec
from shared.domain.mcp_server import ServerState
from shared.domain.mcp_tool import OfferedTool
from shared.ports.mcp_servers import Answered, CallFailed, McpServers

SCHEMA = {"type": "object", "properties": {"day": {"type": "integer"}}, "required": ["day"]}
WEATHER = OfferedTool("w", "forecast", ToolSpec("w__forecast", "What comes.", SCHEMA, "read"))


class Weather:
    """A server that is there or not, and knows some days."""

    def __init__(self) -> None:
        self.offered: list[OfferedTool] = []
        self.asked: list[Mapping[str, Any]] = []

    def states(self) -> Sequence[ServerState]:
        return [ServerState("w", "up")]

    def tools(self) -> Sequence[OfferedTool]:
        return self.offered

    async def call(self, tool: OfferedTool, arguments: Mapping[str, Any]) -> Answered:
        self.asked.append(arguments)
        if arguments["day"] > 7:
            raise CallFailed("The MCP server 'w' did not answer within 1 s")
        return Answered("no such day", is_error=True) if arguments["day"] < 0 else Answered("rain")


def box(servers: McpServers) -> LocalToolbox:
    return LocalToolbox((), output_truncation=1000, max_parallel=4, sources=[McpTools(servers)])


async def said(toolbox: LocalToolbox, use: ToolUse, **arguments: Any) -> tuple[str, bool]:
    result = await toolbox.use({"id": "c", "name": "w__forecast", "arguments": arguments}, use)
    return result["content"], result.get("is_error", False)


async def test_a_tool_is_used_with_arguments_that_its_schema_admits(use: ToolUse) -> None:
    """What it does not admit never reaches the server."""
    weather = Weather()
    weather.offered = [WEATHER]
    toolbox = box(weather)
    assert toolbox.spec("w__forecast") == WEATHER.spec
    assert await said(toolbox, use, day="3") == ("rain", False)
    content, is_error = await said(toolbox, use, date=3)
    assert is_error
    assert content.startswith("Error: Invalid arguments for 'w__forecast': missing required argument 'day'")
    assert weather.asked == [{"day": 3}]


async def test_what_a_server_calls_an_error_is_one_and_so_is_its_silence(use: ToolUse) -> None:
    """A model reads the same words for both kinds."""
    weather = Weather()
    weather.offered = [WEATHER]
    assert await said(box(weather), use, day=-1) == ("Error: no such day", True)
    assert await said(box(weather), use, day=8) == ("Error: The MCP server 'w' did not answer within 1 s", True)


async def test_a_tool_that_changed_is_offered_as_it_is_now(use: ToolUse) -> None:
    """Servers change their tools while they run."""
    weather = Weather()
    toolbox = box(weather)
    assert toolbox.specs() == ()
    weather.offered = [WEATHER]
    assert toolbox.specs() == (WEATHER.spec,)
    changed = OfferedTool("w", "forecast", ToolSpec("w__forecast", "What came.", SCHEMA, "once"))
    weather.offered = [changed]
    assert toolbox.specs() == (changed.spec,)
