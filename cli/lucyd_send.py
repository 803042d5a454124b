"""``lucyd-send``: the command of the original, with its flags, over HTTP."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cli.edge.door import open_gateway
from cli.edge.screen import Screen
from cli.edge.spoken_faults import spoken_faults
from cli.rules.failure import Failure

ALL = "all"


def main(argv: Sequence[str] | None = None) -> None:
    """Do what the flags ask; exits 0 when it was done, 1 with a sentence when not, 2 when it was not understood."""
    with spoken_faults("lucyd-send"):
        parser = _parser()
        chosen = parser.parse_args(argv)
        _refuse_what_comes_later(chosen)
        if not any((chosen.message, chosen.reset, chosen.cost, chosen.history, chosen.sessions, chosen.monitor)):
            parser.print_help()
            sys.exit(1)
        _obey(chosen)


def _obey(chosen: argparse.Namespace) -> None:
    from cli.actions.reset_sessions import reset_sessions  # noqa: PLC0415 - loads the HTTP client
    from cli.actions.send_message import Outgoing  # noqa: PLC0415 - as above
    from cli.actions.show_cost import show_cost  # noqa: PLC0415 - as above
    from cli.actions.show_history import show_history  # noqa: PLC0415 - as above
    from cli.actions.show_monitor import show_monitor  # noqa: PLC0415 - as above
    from cli.actions.show_sessions import show_sessions  # noqa: PLC0415 - as above

    screen = Screen()
    with open_gateway(chosen.url, chosen.state_dir) as gateway:
        if chosen.cost:
            show_cost(chosen.cost, gateway, screen)
        elif chosen.sessions:
            show_sessions(gateway, screen)
        elif chosen.monitor:
            show_monitor(gateway, screen)
        elif chosen.history:
            show_history(chosen.history, gateway, screen, full=chosen.full)
        elif chosen.reset:
            screen.say(reset_sessions(chosen.reset, gateway))
        else:
            gateway.hand_over(Outgoing(chosen.message, sender=chosen.sender, tier=chosen.tier or None).body())
            screen.say("Message sent.")


def _refuse_what_comes_later(chosen: argparse.Namespace) -> None:
    for flag, given in (("-s/--system", chosen.system), ("-n/--notify", chosen.notify), ("-a/--attach", chosen.attach)):
        if given is not None:
            raise Failure(f"{flag} is not there yet.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lucyd-send", description="Send messages to Lucyd, and ask what goes on.")
    parser.add_argument("-m", "--message", metavar="TEXT", help="send a message; it is answered in the background")
    parser.add_argument("--from", dest="sender", metavar="NAME", default="cli", help="sender of it (default: cli)")
    parser.add_argument("--tier", default="", metavar="NAME", help="context tier of it: full, operational or minimal")
    parser.add_argument(
        "--cost", nargs="?", const="today", metavar="PERIOD", help="what the models cost: today (default), week or all"
    )
    parser.add_argument("--sessions", action="store_true", help="list the active sessions")
    parser.add_argument("--monitor", action="store_true", help="show what goes on right now")
    parser.add_argument("--reset", nargs="?", const=ALL, metavar="TARGET", help="end a session; without TARGET, all")
    parser.add_argument("--history", metavar="SESSION", help="what was said in a session, named by contact or id")
    parser.add_argument("--full", action="store_true", help="with --history: thoughts and tools too")
    parser.add_argument("--state-dir", type=Path, metavar="DIR", help="data directory (default: ~/.lucyd)")
    parser.add_argument("--url", metavar="URL", help="address of the gateway (default: LUCYD_URL, else this machine)")
    for flags in (("-s", "--system"), ("-n", "--notify"), ("-a", "--attach")):
        parser.add_argument(*flags, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
