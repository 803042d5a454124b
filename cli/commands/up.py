"""``lucyd up``."""

from typing import Annotated

import typer

from cli.commands.options import Config


def up(
    config: Config = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=64, metavar="N", help="How many agent workers (default 1).")
    ] = None,
) -> None:
    """Run Lucyd on this machine until Ctrl-C.

    Starts the embedded servers (unless others are named) and every service, and stays in the foreground.
    """
    from deploy.local.__main__ import main  # noqa: PLC0415 - the launcher loads servers and drivers

    words = [] if config is None else ["--config", str(config)]
    words += [] if workers is None else ["--workers", str(workers)]
    raise typer.Exit(main(words))
