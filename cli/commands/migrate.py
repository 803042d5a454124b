"""``lucyd migrate``."""

from cli.commands.options import Config
from cli.edge.screen import Screen


def migrate(config: Config = None) -> None:
    """Bring the database's tables up to date.

    `lucyd up` does it by itself; a database of your own may want it before a new version starts.
    """
    from cli.edge.own_database import find_database  # noqa: PLC0415 - loads the configuration
    from cli.wiring import bring_up_to_date  # noqa: PLC0415 - loads the drivers

    applied = bring_up_to_date(find_database(config))
    screen = Screen()
    for name in applied:
        screen.say(f"applied {name}")
    screen.say("The tables are up to date.")
