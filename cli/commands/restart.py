"""``lucyd restart``."""

from typing import Annotated

import typer

from cli.commands.options import Config


def restart(
    services: Annotated[
        list[str] | None, typer.Argument(metavar="[SERVICE]...", help="Which ones, such as gateway (default: all).")
    ] = None,
    config: Config = None,
) -> None:
    """Have a running `lucyd up` follow each of its processes by a new one.

    New code and a new lucyd.toml take effect, and nothing is lost meanwhile. A new process that can't run changes
    nothing: the old one goes on, and this command says why.
    """
    from cli.edge.address import environment  # noqa: PLC0415 - loads the configuration
    from deploy.local.restart_request import ask_restart  # noqa: PLC0415 - as above
    from shared.runtime.settings import load_configuration  # noqa: PLC0415 - as above

    read = load_configuration(config, environment(), find_ollama=lambda: None)
    ask_restart(read.data_dir, services or (), show=print)
