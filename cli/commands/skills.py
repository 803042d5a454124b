"""``lucyd skills``: what the agent knows how to do, as the files say it now."""

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from cli.commands.options import Config
from cli.edge.screen import Screen

Text = Annotated[str, typer.Argument(metavar="TEXT", help="A message, as a person would write it.")]


def list_skills(config: Config = None) -> None:
    """List the skills in the workspace and in extra_dirs, and say what is skipped, and why; Lucyd need not run."""
    from cli.actions.look_at_skills import list_skills as show  # noqa: PLC0415 - loads the configuration
    from cli.edge.address import environment  # noqa: PLC0415 - as above
    from cli.wiring import read_skills  # noqa: PLC0415 - loads the adapters
    from shared.runtime.settings import load_configuration  # noqa: PLC0415 - as above

    found = load_configuration(config, environment(), find_ollama=lambda: None)
    show(read_skills(found.skill_places), Screen(), always_on=found.agent.skills.always_on)


def match(text: Text, config: Config = None) -> None:
    """Show how well skills fit a message, the best first; the three best are shown to the agent in full."""
    from cli.actions.look_at_skills import match_skills as show  # noqa: PLC0415 - loads the configuration
    from cli.edge.address import environment  # noqa: PLC0415 - as above
    from cli.wiring import read_skills  # noqa: PLC0415 - loads the adapters
    from shared.runtime.settings import load_configuration  # noqa: PLC0415 - as above

    found = load_configuration(config, environment(), find_ollama=lambda: None)
    show(read_skills(found.skill_places), text, Screen(), always_on=found.agent.skills.always_on)


ORDERS: Mapping[str, Callable[..., None]] = {"list": list_skills, "match": match}
