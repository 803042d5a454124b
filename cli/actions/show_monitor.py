"""Show what goes on right now."""

import time

from cli.edge.gateway_client import Gateway
from cli.edge.screen import Screen
from cli.rules.failure import Failure
from cli.rules.monitor_view import monitor_pieces, services_table, sessions_in_hand

LOOK_EVERY_SECONDS = 2.0
"""Half of what the gateway allows one address to read."""


def show_monitor(gateway: Gateway, screen: Screen) -> None:
    """One look."""
    monitor, now = gateway.monitor(), time.time()
    screen.show(monitor_pieces(monitor, now))
    for table in (sessions_in_hand(monitor), services_table(monitor, now)):
        if table is not None:
            screen.say("")
            screen.table(table)


def watch_monitor(gateway: Gateway, screen: Screen) -> None:
    """A look every two seconds until Ctrl-C; a gateway that is away for a while is waited for."""
    try:
        while True:
            screen.clear()
            try:
                show_monitor(gateway, screen)
            except Failure as fault:
                screen.say(str(fault), "warning")
            time.sleep(LOOK_EVERY_SECONDS)
    except KeyboardInterrupt:
        return
