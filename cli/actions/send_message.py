"""Send one message and tell its reply as it comes."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from cli.edge.gateway_client import Gateway
from cli.edge.screen import Screen
from cli.rules.account import account_line, has_bill
from cli.rules.clean_text import is_text
from cli.rules.failure import Failure
from cli.rules.follower import Follower
from cli.rules.teller import Teller

GIVEN_UP = "interrupted"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message of this terminal; what is ``None`` is left to the gateway."""

    text: str
    sender: str | None = None
    tier: str | None = None
    context: str | None = None

    def body(self) -> Mapping[str, str]:
        """As ``/chat`` takes it. Raises ``Failure`` for bytes that are no text (to Python, half characters)."""
        given = {"message": self.text, "sender": self.sender, "tier": self.tier, "context": self.context}
        for name, value in given.items():
            if value and not is_text(value):
                raise Failure(f"The {name} is not UTF-8 text.")
        return {"source": "cli", **{name: value for name, value in given.items() if value}}


def send_message(message: Outgoing, gateway: Gateway, screen: Screen, teller: Teller) -> str:
    """Tell the reply, then what it cost; returns how it ended: an event's type, or ``GIVEN_UP`` after Ctrl-C.

    Raises ``Failure`` when the message was not taken, or its end can't be learned.
    """
    follower, started = Follower(), time.monotonic()
    try:
        for event in gateway.stream(message.body(), follower):
            screen.show(teller.tell(event))
            if event.terminal:
                if event.type == "done" or has_bill(event.data):
                    screen.say(account_line(event.data, time.monotonic() - started), "aside")
                return event.type
    except KeyboardInterrupt:
        screen.show(teller.break_line())
        screen.say(_left(follower.run_id), "aside")
        return GIVEN_UP
    except Failure:
        screen.show(teller.break_line())
        raise
    raise Failure("The stream ended without an end.")


def _left(run_id: str | None) -> str:
    if run_id is None:
        return "No longer waiting; the message may have been accepted, `lucyd history` tells."
    return f"No longer shown; the run goes on: {run_id}"
