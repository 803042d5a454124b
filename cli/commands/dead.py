"""``lucyd dead``: what was given up."""

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from cli.commands.options import AsJson, Url, print_json
from cli.edge.door import open_gateway
from cli.edge.screen import Screen

Id = Annotated[str, typer.Argument(metavar="ID", help="As `lucyd dead list` shows it.")]


def list_dead(*, as_json: AsJson = False, url: Url = None) -> None:
    """List runs, deliveries and webhooks that were given up, the newest first."""
    from cli.actions.decide_dead import show_dead  # noqa: PLC0415 - loads the HTTP client

    with open_gateway(url) as gateway:
        if as_json:
            print_json({"dead": gateway.dead()})
        else:
            show_dead(gateway, Screen())


def show(id: Id, *, as_json: AsJson = False, url: Url = None) -> None:
    """Show one of them."""
    from cli.actions.decide_dead import show_dead_letter  # noqa: PLC0415 - loads the HTTP client

    with open_gateway(url) as gateway:
        if as_json:
            print_json(gateway.dead_letter(id))
        else:
            show_dead_letter(id, gateway, Screen())


def retry(id: Id, url: Url = None) -> None:
    """Try it once more: a run's message as a new run, a delivery or a webhook as it is."""
    from cli.actions.decide_dead import retry_dead  # noqa: PLC0415 - loads the HTTP client

    with open_gateway(url) as gateway:
        retry_dead(id, gateway, Screen())


def drop(id: Id, url: Url = None) -> None:
    """Let it be: it leaves the list, and nothing more comes of it."""
    from cli.actions.decide_dead import drop_dead  # noqa: PLC0415 - loads the HTTP client

    with open_gateway(url) as gateway:
        drop_dead(id, gateway, Screen())


ORDERS: Mapping[str, Callable[..., None]] = {"list": list_dead, "show": show, "retry": retry, "drop": drop}
