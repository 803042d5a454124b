"""Look at MCP servers: connect with each once, and tell how that went."""

from collections.abc import Sequence

from cli.edge.screen import Screen
from cli.rules.failure import Failure
from cli.rules.mcp_view import checked_pieces, has_failed, servers_table, tools_table
from shared.domain.mcp_server import McpServer
from shared.ports.mcp_servers import McpServers

NONE = "No MCP server is configured; docs/mcp.md says how."


def chosen(servers: Sequence[McpServer], name: str | None) -> Sequence[McpServer]:
    """The server of that name, else all. Raises ``Failure`` when there is none of that name."""
    if name is None:
        return servers
    found = [server for server in servers if server.name == name]
    if not found:
        known = ", ".join(server.name for server in servers) or "none"
        raise Failure(f"There is no MCP server {name!r} in lucyd.toml; there is: {known}.")
    return found


def list_servers(servers: McpServers, screen: Screen) -> None:
    """Servers, and the tools that they offer."""
    if not servers.states():
        screen.say(NONE)
        return
    screen.table(servers_table(servers.states()))
    if tools := servers.tools():
        screen.say("")
        screen.table(tools_table(tools))


def check_servers(servers: McpServers, screen: Screen) -> bool:
    """A sentence for each; whether all is well."""
    states = servers.states()
    if not states:
        screen.say(NONE)
    screen.show(checked_pieces(states))
    return not has_failed(states)
