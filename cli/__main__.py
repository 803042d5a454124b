"""The ``lucyd`` command. What is slow to load is loaded by the command that needs it."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from cli.commands.cancel import cancel
from cli.commands.chat import chat
from cli.commands.cost import cost
from cli.commands.dead import ORDERS as ABOUT_DEAD
from cli.commands.doctor import doctor
from cli.commands.history import history
from cli.commands.keys import ORDERS as ABOUT_KEYS
from cli.commands.mcp import ORDERS as ABOUT_MCP
from cli.commands.migrate import migrate
from cli.commands.monitor import monitor
from cli.commands.plugins import ORDERS as ABOUT_PLUGINS
from cli.commands.reset import reset
from cli.commands.restart import restart
from cli.commands.schedule import ORDERS as ABOUT_SCHEDULES
from cli.commands.send import send
from cli.commands.sessions import sessions
from cli.commands.skills import ORDERS as ABOUT_SKILLS
from cli.commands.up import up
from cli.commands.why import why
from cli.edge.spoken_faults import spoken_faults

COMMANDS: tuple[Callable[..., None], ...] = (
    up, restart, chat, send, sessions, history, cost, monitor, why, cancel, reset, doctor, migrate,
)  # fmt: skip


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it with the flag's value
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - only for this

        print(f"lucyd {version('lucyd')}")
        raise typer.Exit


def _open(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print it.")
    ] = False,
) -> None:
    """Lucyd: an agent that lives for years."""
    del version


def _application() -> typer.Typer:
    # Without rich's pages and tracebacks: they take time to load, and a traceback of theirs shows values.
    manner: dict[str, Any] = {
        "no_args_is_help": True,
        "add_completion": False,
        "pretty_exceptions_enable": False,
        "rich_markup_mode": None,
        "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 100},
    }
    application = typer.Typer(**manner)
    application.callback()(_open)
    for command in COMMANDS:
        application.command()(command)
    for about, orders, what in (
        ("dead", ABOUT_DEAD, "What was given up: list it, try it again, or let it be."),
        ("schedule", ABOUT_SCHEDULES, "Reminders, tasks and messages for later: list them, cancel one."),
        ("keys", ABOUT_KEYS, "Who may come in besides the operator: make, list and revoke API keys."),
        ("plugins", ABOUT_PLUGINS, "Tools of your own: list the plugins of the workers, and why one failed."),
        ("skills", ABOUT_SKILLS, "Skills of the agent: list them, see which fit a message."),
        ("mcp", ABOUT_MCP, "Servers of the Model Context Protocol: list their tools, check them; or be one."),
    ):
        group = typer.Typer(help=what, **manner)
        for name, order in orders.items():
            group.command(name)(order)
        application.add_typer(group, name=about)
    return application


def main() -> None:
    """Run one command; exits 0 when it did what was asked, 1 with a sentence when not, 2 when it was not understood."""
    with spoken_faults("lucyd"):
        _application()()


if __name__ == "__main__":
    main()
