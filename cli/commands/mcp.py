"""``lucyd mcp``: servers of the Model Context Protocol whose tools the agent has, and Lucyd as such a server."""

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from cli.commands.options import Config, Url
from cli.edge.screen import Screen


def list_servers(config: Config = None) -> None:
    """List the servers of lucyd.toml and their tools, by the names that the agent knows them by.

    Connects with each server for itself; Lucyd need not run.
    """
    from cli.actions.look_at_mcp import list_servers as show  # noqa: PLC0415 - loads the configuration
    from cli.edge.address import environment  # noqa: PLC0415 - as above
    from cli.wiring import with_mcp_servers  # noqa: PLC0415 - loads the drivers
    from shared.runtime.settings import load_configuration  # noqa: PLC0415 - as above

    found = load_configuration(config, environment(), find_ollama=lambda: None).mcp_servers()
    with_mcp_servers(found, lambda servers: show(servers, Screen()))


def check(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One server (default: all).")] = None,
    config: Config = None,
) -> None:
    """Connect with each server now, and say what is wrong; exits 1 when one that is enabled can't be used."""
    from cli.actions.look_at_mcp import check_servers, chosen  # noqa: PLC0415 - loads the configuration
    from cli.edge.address import environment  # noqa: PLC0415 - as above
    from cli.wiring import with_mcp_servers  # noqa: PLC0415 - loads the drivers
    from shared.runtime.settings import load_configuration  # noqa: PLC0415 - as above

    found = chosen(load_configuration(config, environment(), find_ollama=lambda: None).mcp_servers(), name)
    if not with_mcp_servers(found, lambda servers: check_servers(servers, Screen())):
        raise typer.Exit(1)


def serve(url: Url = None) -> None:
    """Be an MCP server over standard input and output: other agents may talk with this one, and search its memory."""
    from cli.edge.door import open_gateway  # noqa: PLC0415 - loads the HTTP client
    from cli.edge.mcp_server import serve as answer  # noqa: PLC0415 - loads the SDK, which takes a second

    with open_gateway(url) as gateway:
        answer(lambda message, sender: gateway.chat({"message": message, "sender": sender}), gateway.search_memory)


ORDERS: Mapping[str, Callable[..., None]] = {"list": list_servers, "check": check, "serve": serve}
