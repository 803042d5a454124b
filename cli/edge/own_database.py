"""Where the database is, for commands that work without a gateway."""

from pathlib import Path

from cli.edge.address import environment
from cli.edge.launcher_file import read_launcher
from cli.rules.failure import Failure
from shared.runtime.settings import load_configuration


def find_database(config: Path | None) -> str:
    """The address that the configuration names, else that of a running ``lucyd up``.

    Raises ``Failure`` when there is none, and ``ConfigError``.
    """
    read = load_configuration(config, environment(), find_ollama=lambda: None)
    launcher = read_launcher(read.data_dir)
    database_url = read.database_url or (launcher.database_url if launcher else None)
    if database_url is None:
        raise Failure("No database is named: set LUCYD_DATABASE_URL, or let `lucyd up` run one of its own.")
    return database_url
