"""Show what is to come later, and take it back."""

from cli.edge.gateway_client import Gateway
from cli.edge.screen import Screen
from cli.rules.clean_text import one_line
from cli.rules.schedule_list import schedules_table


def show_schedules(gateway: Gateway, screen: Screen, *, all: bool) -> None:
    """A table of what is pending; with ``all`` also of what is over."""
    schedules = gateway.schedules(None if all else "pending")
    if schedules:
        screen.table(schedules_table(schedules))
    else:
        screen.say("Nothing is scheduled.")


def cancel_schedule(id: str, gateway: Gateway, screen: Screen) -> None:
    """Take one back; raises ``Failure`` when nobody knows it, and when it is too late."""
    answer = gateway.cancel_schedule(id)
    screen.say(f"Cancelled {one_line(answer.get('id', id))}.")
