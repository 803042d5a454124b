"""Send one message and tell its reply as it comes, or what the agent asks before it goes on."""

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from cli.edge.gateway_client import Gateway
from cli.edge.screen import Screen
from cli.rules.account import account_line, has_bill
from cli.rules.asking import asks
from cli.rules.clean_text import is_text
from cli.rules.failure import Failure
from cli.rules.follower import Follower
from cli.rules.run_end import end_of, has_ended
from cli.rules.teller import Teller, is_last_question
from shared.messages.run_events import RunEvent

GIVEN_UP = "interrupted"
ASKS = "asks"

_NO_END = "The stream ended without an end."
_STORED_WITHIN_SECONDS = 10.0
_FIRST_LOOK_SECONDS = 0.02
_LONGEST_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message of this terminal; what is ``None`` is left to the gateway."""

    text: str
    sender: str | None = None
    tier: str | None = None
    context: str | None = None
    when_busy: str | None = None

    def body(self) -> Mapping[str, str]:
        """As ``/chat`` takes it. Raises ``Failure`` for bytes that are no text (to Python, half characters)."""
        given = {"message": self.text, "sender": self.sender, "tier": self.tier, "context": self.context}
        given["when_busy"] = self.when_busy
        for name, value in given.items():
            if value and not is_text(value):
                raise Failure(f"The {name} is not UTF-8 text.")
        return {"source": "cli", **{name: value for name, value in given.items() if value}}


@dataclass(frozen=True, slots=True)
class Shown:
    """A run as far as it was shown here; it can be taken up again from there."""

    teller: Teller
    follower: Follower = field(default_factory=Follower)

    @property
    def run_id(self) -> str | None:
        """Its id, once it is accepted."""
        return self.follower.run_id


@dataclass(frozen=True, slots=True)
class Told:
    """How showing a run came to its end: how the run ended, or ``ASKS``, or ``GIVEN_UP`` after Ctrl-C."""

    end: str
    shown: Shown


def send_message(
    message: Outgoing,
    gateway: Gateway,
    screen: Screen,
    own: Shown,
    *,
    asking: Shown | None = None,
    how_to_end: str | None = None,
) -> Told:
    """Tell the reply, then what it cost; or what the agent asks, once it can be answered.

    ``own`` is the new run, known also when this raises. ``asking`` is the run whose question was shown last: a message
    that answers it goes on with that run. ``how_to_end`` says how to end a run that is no longer shown.

    Raises ``Failure`` when the message was not taken, or its end can't be learned.
    """
    display = _Display(gateway, screen, own)
    return _show(display, lambda: display.send(message.body(), asking), how_to_end)


def take_up(shown: Shown, gateway: Gateway, screen: Screen, *, how_to_end: str | None = None) -> Told:
    """Go on showing a run where it was left. Raises ``Failure`` when its end can't be learned."""
    display = _Display(gateway, screen, shown)
    return _show(display, display.follow, how_to_end)


def _show(display: "_Display", work: Callable[[], str], how_to_end: str | None) -> Told:
    try:
        end = work()
    except KeyboardInterrupt:
        display.break_line()
        display.screen.say(_left(display.shown.run_id, how_to_end), "aside")
        end = GIVEN_UP
    except Failure:
        display.break_line()
        raise
    return Told(end, display.shown)


def _left(run_id: str | None, how_to_end: str | None) -> str:
    if run_id is None:
        return "No longer waiting; the message may have been accepted, `lucyd history` tells."
    return f"No longer shown; the run goes on: {run_id} ({how_to_end or f'`lucyd cancel {run_id}`'} ends it)"


class _Display:
    """Shows one message's way; ``shown`` is the run whose events are told now."""

    def __init__(self, gateway: Gateway, screen: Screen, shown: Shown) -> None:
        self._gateway = gateway
        self.screen = screen
        self.shown = shown
        self._started = time.monotonic()

    def break_line(self) -> None:
        """End an unfinished line."""
        self.screen.show(self.shown.teller.break_line())

    def send(self, body: Mapping[str, str], asking: Shown | None) -> str:
        """Send a message and show what comes of it."""
        key, leader = str(uuid4()), None
        with contextlib.closing(self._gateway.stream(body, self.shown.follower, key)) as events:
            for event in events:
                if event.type == "accepted":
                    leader = self._leader()
                    if leader is not None:
                        break
                    if asking is not None:
                        self.screen.say("The question was no longer open: this is a message of its own.", "warning")
                if (end := self._tell(event)) is not None:
                    return end
        if leader is None:
            raise Failure(_NO_END)
        if asking is not None and asking.run_id == leader:
            self.shown = asking
        elif self._asks_again(body, key):
            return ASKS
        return self.follow()

    def follow(self) -> str:
        """Show a run from where it stands."""
        with contextlib.closing(self._gateway.follow(self.shown.follower)) as events:
            for event in events:
                if (end := self._tell(event)) is not None:
                    return end
        raise Failure(_NO_END)

    def _tell(self, event: RunEvent) -> str | None:
        self.screen.show(self.shown.teller.tell(event))
        if is_last_question(event) and self._waits():
            return ASKS
        if not event.terminal:
            return None
        end = end_of(event)
        if end == "done" or has_bill(event.data):
            self.screen.say(account_line(event.data, time.monotonic() - self._started), "aside")
        return end

    def _leader(self) -> str | None:
        """The run that this message answers, if it is an answer."""
        run = self.shown.run_id or ""
        try:
            if self._gateway.run(run).get("state") != "merged":
                return None
            return str(self._gateway.story(run).get("merged_into") or "") or None
        except Failure:
            return None  # its own events tell the end, too

    def _asks_again(self, body: Mapping[str, str], key: str) -> bool:
        """Wait for the end of a run of which nothing was shown here, or for what it asks next: that is shown.

        The events of the answer tell the end alone, and those of the run would tell again what others have seen.
        """
        told = json.loads(self._gateway.chat(body, key))
        if told.get("state") != "waiting":
            return False
        many = len(told.get("approvals") or ())
        question = RunEvent("", "approval", {"text": told.get("reply"), "number": many, "of": many})
        self.screen.show(self.shown.teller.tell(question))
        return True

    def _waits(self) -> bool:
        """Whether the answer may be given. A question is told a moment before it is stored, and counts from then on."""
        pause, until = _FIRST_LOOK_SECONDS, time.monotonic() + _STORED_WITHIN_SECONDS
        while time.monotonic() < until:
            with contextlib.suppress(Failure):
                story = self._gateway.story(self.shown.run_id or "")
                if asks(story):
                    return True
                if has_ended(story):
                    return False
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK_SECONDS)
        return False
