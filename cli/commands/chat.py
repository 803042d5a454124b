"""``lucyd chat``."""

import typer

from cli.commands.options import Sender, Thinking, Url
from cli.edge.door import open_gateway
from cli.edge.screen import Screen
from cli.rules.asking import ASKED


def chat(*, sender: Sender = None, thinking: Thinking = False, url: Url = None) -> None:
    """Talk with the agent at a prompt.

    Ctrl-C stops showing a reply, Ctrl-D ends the talk; /help lists what else there is.
    Exits 3 when the agent still waits for an answer.
    """
    from cli.actions.converse import Manner, converse, greet  # noqa: PLC0415 - loads the HTTP client
    from cli.edge.address import environment, find_address  # noqa: PLC0415 - loads the configuration
    from cli.edge.line_input import open_line_input  # noqa: PLC0415 - loads readline

    screen = Screen()
    history = find_address(url, environment()).data_dir / "chat_history"
    with open_gateway(url) as gateway, open_line_input(history) as lines:
        if screen.is_terminal:
            greet(gateway, screen)
        parting = converse(lines, gateway, screen, Manner(sender, thinking))
    if parting != "well":
        raise typer.Exit(ASKED if parting == "asked" else 1)
