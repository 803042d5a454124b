"""``lucyd migrate``."""

from cli.commands.options import Config
from cli.edge.screen import Screen
from cli.rules.failure import Failure


def migrate(config: Config = None) -> None:
    """Bring the database's tables up to date.

    `lucyd up` does it by itself; a database of your own may want it before a new version starts.
    """
    from cli.edge.address import environment  # noqa: PLC0415 - loads the configuration
    from cli.edge.launcher_file import read_launcher  # noqa: PLC0415 - as above
    from cli.wiring import bring_up_to_date  # noqa: PLC0415 - loads the drivers
    from shared.runtime.settings import load_configuration  # noqa: PLC0415 - as above

    read = load_configuration(config, environment(), find_ollama=lambda: None)
    launcher = read_launcher(read.data_dir)
    database_url = read.database_url or (launcher.database_url if launcher else None)
    if database_url is None:
        raise Failure("No database is named: set LUCYD_DATABASE_URL, or let `lucyd up` run one of its own.")
    applied = bring_up_to_date(database_url)
    screen = Screen()
    for name in applied:
        screen.say(f"applied {name}")
    screen.say("The tables are up to date.")
