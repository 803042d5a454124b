"""``lucyd schedule``: what is to come later."""

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from cli.commands.options import AsJson, Url, print_json
from cli.edge.door import open_gateway
from cli.edge.screen import Screen

Id = Annotated[str, typer.Argument(metavar="ID", help="As `lucyd schedule list` shows it: sched-12.")]
All = Annotated[bool, typer.Option("--all", help="Also what has fired, was cancelled, or has failed.")]


def list_scheduled(*, all: All = False, as_json: AsJson = False, url: Url = None) -> None:
    """List reminders, tasks and messages that are to come, the newest first."""
    from cli.actions.mind_schedules import show_schedules  # noqa: PLC0415 - loads the HTTP client

    with open_gateway(url) as gateway:
        if as_json:
            print_json({"schedules": gateway.schedules(None if all else "pending")})
        else:
            show_schedules(gateway, Screen(), all=all)


def cancel(id: Id, url: Url = None) -> None:
    """Cancel one of them; exits 1 when it is too late."""
    from cli.actions.mind_schedules import cancel_schedule  # noqa: PLC0415 - loads the HTTP client

    with open_gateway(url) as gateway:
        cancel_schedule(id, gateway, Screen())


ORDERS: Mapping[str, Callable[..., None]] = {"list": list_scheduled, "cancel": cancel}
