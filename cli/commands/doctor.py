"""``lucyd doctor``."""

import typer

from cli.commands.options import Config, Url
from cli.edge.screen import Screen
from cli.rules.diagnosis import finding_pieces, has_failed


def doctor(config: Config = None, url: Url = None) -> None:
    """Say what is wrong, and how to mend it.

    Looks at configuration, folders, servers and gateway; nothing has to run for it, and nothing is changed. Exits 1
    when something fails.
    """
    from cli.actions.examine import Examiners, examine  # noqa: PLC0415 - loads the HTTP client
    from cli.edge.address import environment  # noqa: PLC0415 - loads the configuration
    from cli.wiring import examine_postgres, examine_redis  # noqa: PLC0415 - loads the drivers

    findings = examine(config, url, environment(), Examiners(examine_postgres, examine_redis))
    Screen().show(finding_pieces(findings))
    if has_failed(findings):
        raise typer.Exit(1)
