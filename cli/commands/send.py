"""``lucyd send``."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cli.commands.options import Sender, Thinking, Url
from cli.edge.door import open_gateway
from cli.edge.screen import Screen
from cli.rules.asking import ASKED, how_to_answer
from cli.rules.failure import Failure

if TYPE_CHECKING:
    from cli.actions.send_message import Outgoing
    from cli.edge.gateway_client import Gateway

INTERRUPTED = 130  # as shells tell it
WHEN_BUSY = ("queue", "steer", "interrupt", "reject")


def send(
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT|-", help="The message; - (or nothing, in a pipe) reads it from standard input."),
    ] = None,
    *,
    sender: Sender = None,
    tier: Annotated[
        str | None, typer.Option("--tier", metavar="NAME", help="Which workspace files the agent sees (default full).")
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="TEXT", help="What the agent should know beside the message.")
    ] = None,
    when_busy: Annotated[
        str | None,
        typer.Option(
            "--when-busy",
            metavar="|".join(WHEN_BUSY),
            help="While an earlier message is answered: wait in line (default), join it, take its place, or go away.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the gateway's whole answer as JSON.")] = False,
    thinking: Thinking = False,
    url: Url = None,
) -> None:
    """Send one message and print the reply.

    The reply goes to standard output, everything about it to standard error. Exits 1 when there is no reply, and 3 when
    the agent asks something instead: the next message is the answer.
    """
    from cli.actions.send_message import ASKS, GIVEN_UP, Outgoing, Shown, send_message  # noqa: PLC0415 - loads the HTTP client
    from cli.rules.teller import Teller  # noqa: PLC0415 - as above

    if when_busy is not None and when_busy not in WHEN_BUSY:
        raise typer.BadParameter(f"one of {', '.join(WHEN_BUSY)}", param_hint="--when-busy")
    message = Outgoing(_message(text), sender=sender, tier=tier, context=context, when_busy=when_busy)
    screen = Screen(apart=True)
    with open_gateway(url) as gateway:
        if as_json:
            _print_json(message, gateway, screen)
            return
        seen = screen.asides_are_seen
        own = Shown(Teller(aloud=screen.is_terminal, thinking=thinking, tools=seen))
        told = send_message(message, gateway, screen, own)
    end = told.end
    if end == ASKS:
        screen.say(how_to_answer(told.shown.run_id or "", sender), "aside")
        raise typer.Exit(ASKED)
    if end == GIVEN_UP:
        raise typer.Exit(INTERRUPTED)
    if end in {"failed", "cancelled"}:
        raise typer.Exit(1)


def _message(text: str | None) -> str:
    if text is None and sys.stdin.isatty():
        raise typer.BadParameter("name the message, or - to type it until Ctrl-D", param_hint="TEXT|-")
    if text is None or text == "-":
        try:
            text = sys.stdin.read()
        except UnicodeDecodeError as fault:
            raise Failure("Standard input is not UTF-8 text.") from fault
    if not text.strip():
        raise Failure("The message is empty.")
    return text


def _print_json(message: "Outgoing", gateway: "Gateway", screen: Screen) -> None:
    from cli.rules.teller import failure_of  # noqa: PLC0415 - loaded by now

    answer = gateway.chat(message.body())
    print(answer)
    outcome = json.loads(answer)
    if outcome.get("state") == "waiting":
        raise typer.Exit(ASKED)
    if outcome.get("error"):
        screen.complain(f"lucyd: {failure_of(outcome)}")
        raise typer.Exit(1)
