"""``lucyd cancel``."""

from typing import Annotated

import typer

from cli.commands.options import Url
from cli.edge.door import open_gateway
from cli.edge.screen import Screen


def cancel(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or at least 8 characters of its beginning.")],
    url: Url = None,
) -> None:
    """End a run; answers once its end is stored.

    A run that had ended says so. Exits 1 when it takes longer to end than the gateway waits.
    """
    from cli.actions.cancel_run import cancel_run  # noqa: PLC0415 - loads the HTTP client

    with open_gateway(url) as gateway:
        Screen().say(cancel_run(run, gateway))
