"""``lucyd history``."""

from typing import Annotated

import typer

from cli.commands.options import Url
from cli.edge.door import open_gateway
from cli.edge.screen import Screen


def history(
    session: Annotated[
        str | None,
        typer.Argument(metavar="[SESSION]", help="A session's id, or a contact (default: this terminal's newest)."),
    ] = None,
    *,
    full: Annotated[bool, typer.Option("--full", help="Thoughts and tools too.")] = False,
    url: Url = None,
) -> None:
    """Show what was said in a session."""
    from cli.actions.show_history import show_history  # noqa: PLC0415 - loads the HTTP client

    with open_gateway(url) as gateway:
        show_history(session, gateway, Screen(), full=full)
