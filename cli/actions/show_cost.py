"""Show what the models cost."""

from cli.edge.gateway_client import Gateway
from cli.edge.screen import Screen
from cli.rules.cost_report import PERIODS, cost_table
from cli.rules.failure import Failure


def show_cost(period: str, gateway: Gateway, screen: Screen) -> None:
    """A table of one period; raises ``Failure`` for a period nobody knows."""
    if period not in PERIODS:
        raise Failure(f"The period must be one of {', '.join(PERIODS)}.")
    table = cost_table(gateway.cost(period))
    if table is None:
        screen.say("No cost data for this period.")
    else:
        screen.table(table)
