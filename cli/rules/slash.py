"""What a person typed at the prompt of ``lucyd chat``."""

from dataclasses import dataclass

HELP = """\
/stop       end the run that was started here last, shown or not
/reset      end this session; the next message begins a new one
/cost       what the models cost (today; or week, all)
/sessions   all active sessions
/help       this list
/quit       end (Ctrl-D does the same)
A message that begins with / is written with //."""

_NAMES = {
    "stop": "stop", "reset": "reset", "cost": "cost", "sessions": "sessions", "help": "help", "quit": "quit",
    "exit": "quit",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Say:
    """A message for the agent."""

    text: str


@dataclass(frozen=True, slots=True)
class Order:
    """A command for this program; ``name`` empty: nobody knows it."""

    name: str
    rest: str
    typed: str


def understand(line: str) -> Say | Order | None:
    """A message, a command, or nothing at all."""
    text = line.strip()
    if not text:
        return None
    if text.startswith("//"):
        return Say(text[1:])
    if not text.startswith("/"):
        return Say(text)
    typed, _, rest = text.partition(" ")
    return Order(_NAMES.get(typed[1:].casefold(), ""), rest.strip(), typed)
