"""Show the active sessions."""

from cli.edge.gateway_client import Gateway
from cli.edge.screen import Screen
from cli.rules.session_list import sessions_table


def show_sessions(gateway: Gateway, screen: Screen) -> None:
    """A table, the dearest first."""
    sessions = gateway.sessions()
    if sessions:
        screen.table(sessions_table(sessions))
    else:
        screen.say("No active sessions.")
