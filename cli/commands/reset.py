"""``lucyd reset``."""

from typing import Annotated

import typer

from cli.commands.options import Url
from cli.edge.door import open_gateway
from cli.edge.screen import Screen


def reset(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[TARGET]", help="all, a contact, or a session's id (default: this terminal's session)."
        ),
    ] = None,
    url: Url = None,
) -> None:
    """End a session; the next message begins a new one."""
    from cli.actions.reset_sessions import reset_sessions, reset_terminal  # noqa: PLC0415 - loads the HTTP client

    with open_gateway(url) as gateway:
        Screen().say(reset_terminal(gateway) if target is None else reset_sessions(target, gateway))
