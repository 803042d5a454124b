"""``lucyd plugins``."""

from collections.abc import Callable, Mapping

import typer

from cli.commands.options import Url
from cli.edge.door import open_gateway
from cli.edge.screen import Screen


def list_all(url: Url = None) -> None:
    """List the plugins of the workers that live, their tools, and why one failed; exits 1 when one has."""
    from cli.actions.list_plugins import list_plugins  # noqa: PLC0415 - loads the HTTP client

    with open_gateway(url) as gateway:
        if not list_plugins(gateway, Screen()):
            raise typer.Exit(1)


ORDERS: Mapping[str, Callable[..., None]] = {"list": list_all}
