"""``lucyd cost``."""

from typing import Annotated

import typer

from cli.commands.options import Url
from cli.edge.door import open_gateway
from cli.edge.screen import Screen


def cost(
    period: Annotated[str, typer.Argument(metavar="[today|week|all]", help="Of which time.")] = "today",
    url: Url = None,
) -> None:
    """Show what the models cost."""
    from cli.actions.show_cost import show_cost  # noqa: PLC0415 - loads the HTTP client

    with open_gateway(url) as gateway:
        show_cost(period, gateway, Screen())
