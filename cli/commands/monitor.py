"""``lucyd monitor``."""

from typing import Annotated

import typer

from cli.commands.options import Url
from cli.edge.door import open_gateway
from cli.edge.screen import Screen


def monitor(
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again every two seconds, until Ctrl-C.")] = False,
    url: Url = None,
) -> None:
    """Show what goes on right now."""
    from cli.actions.show_monitor import show_monitor, watch_monitor  # noqa: PLC0415 - loads the HTTP client

    with open_gateway(url) as gateway:
        (watch_monitor if watch else show_monitor)(gateway, Screen())
