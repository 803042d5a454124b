"""``lucyd sessions``."""

from cli.commands.options import Url
from cli.edge.door import open_gateway
from cli.edge.screen import Screen


def sessions(url: Url = None) -> None:
    """List the active sessions, the dearest first."""
    from cli.actions.show_sessions import show_sessions  # noqa: PLC0415 - loads the HTTP client

    with open_gateway(url) as gateway:
        show_sessions(gateway, Screen())
