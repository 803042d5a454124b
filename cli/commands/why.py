"""``lucyd why``."""

from typing import Annotated

import typer

from cli.commands.options import AsJson, Url, print_json
from cli.edge.door import open_gateway
from cli.edge.screen import Screen


def why(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or at least 8 characters of its beginning.")],
    *,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Tell what became of a message: who worked on it, when, and what it cost."""
    from cli.actions.tell_story import tell_story  # noqa: PLC0415 - loads the HTTP client

    with open_gateway(url) as gateway:
        if as_json:
            print_json(gateway.story(run))
        else:
            tell_story(run, gateway, Screen())
