"""The conversation at the prompt of ``lucyd chat``."""

from dataclasses import dataclass
from typing import Literal

from cli.actions.cancel_run import cancel_run
from cli.actions.reset_sessions import reset_terminal
from cli.actions.send_message import ASKS, GIVEN_UP, Outgoing, Shown, Told, send_message, take_up
from cli.actions.show_cost import show_cost
from cli.actions.show_sessions import show_sessions
from cli.edge.gateway_client import Gateway
from cli.edge.line_input import LineInput
from cli.edge.screen import Screen
from cli.rules.asking import asks, how_to_answer
from cli.rules.clean_text import one_line
from cli.rules.failure import Failure
from cli.rules.run_end import has_ended
from cli.rules.slash import HELP, Order, Say, understand
from cli.rules.teller import Teller


@dataclass(frozen=True, slots=True)
class Manner:
    """How to talk: under which name, and whether thoughts are shown."""

    sender: str | None = None
    thinking: bool = False


Parting = Literal["well", "failed", "asked"]
"""How a talk ended: the last message has its reply, or none, or the agent waits for an answer."""

_STOP = "/stop"


def greet(gateway: Gateway, screen: Screen) -> None:
    """Say who answers; raises ``Failure`` when nobody does."""
    status = gateway.status()
    agent, model = one_line(status.get("agent") or "Lucyd", 40), one_line(status.get("model") or "", 48)
    told = " · ".join(each for each in (f"{agent} at {gateway.url}", model, "/help", "Ctrl-D ends") if each)
    screen.say(told, "aside")


def converse(lines: LineInput, gateway: Gateway, screen: Screen, manner: Manner) -> Parting:
    """Talk until the person ends it, and say how the last message fared. No single fault ends it."""
    talk = _Talk(gateway, screen, manner)
    well = True
    while (line := lines.ask()) is not None:
        wish = understand(line)
        if wish is None:
            continue
        if isinstance(wish, Order) and wish.name == "quit":
            break
        try:
            well = talk.say(wish) if isinstance(wish, Say) else talk.obey(wish)
        except Failure as fault:
            well = False
            screen.say(str(fault), "error")
        except KeyboardInterrupt:
            screen.say("")  # an order was abandoned; a message says so itself
    if talk.asking is not None:
        screen.say(how_to_answer(talk.asking.run_id or "", manner.sender), "aside")
        return "asked"
    return "well" if well else "failed"


class _Talk:
    """What was started here: the run that asks, the newest one, and those that are no longer shown."""

    def __init__(self, gateway: Gateway, screen: Screen, manner: Manner) -> None:
        self._gateway = gateway
        self._screen = screen
        self._manner = manner
        self._newest: Shown | None = None
        self._left: list[Shown] = []
        self.asking: Shown | None = None

    def say(self, wish: Say) -> bool:
        """Send a message; false when there was no reply."""
        if self.asking is None and (asking := self._asks_unseen()) is not None:
            # An answer to a question that nobody has read would be no answer.
            self._screen.say("Not sent: the run that was left asks something first.", "warning")
            return self._note(take_up(asking, self._gateway, self._screen, how_to_end=_STOP))
        own = Shown(Teller(aloud=self._screen.is_terminal, thinking=self._manner.thinking))
        asking, message = self.asking, Outgoing(wish.text, sender=self._manner.sender)
        before, self._newest = self._newest, own
        try:
            told = send_message(message, self._gateway, self._screen, own, asking=asking, how_to_end=_STOP)
        except Failure:
            if own.run_id is not None:
                self._left.append(own)
            raise
        finally:
            if own.run_id is None:
                self._newest = before
            else:
                self.asking = None
        return self._note(told)

    def obey(self, order: Order) -> bool:
        """Carry out an order. Raises ``Failure``."""
        screen, gateway = self._screen, self._gateway
        match order.name:
            case "stop":
                screen.say(self._stop())
            case "reset":
                screen.say(reset_terminal(gateway, self._manner.sender))
                self.asking = None
            case "cost":
                show_cost(order.rest or "today", gateway, screen)
            case "sessions":
                show_sessions(gateway, screen)
            case "help":
                screen.say(HELP)
            case _:
                raise Failure(f"There is no command {one_line(order.typed, 20)}; /help lists them.")
        return True

    def _note(self, told: Told) -> bool:
        self.asking = told.shown if told.end == ASKS else None
        if told.end == GIVEN_UP and told.shown.run_id is not None:
            self._left.append(told.shown)
        return told.end not in {"failed", "cancelled"}

    def _asks_unseen(self) -> Shown | None:
        """A run that is no longer shown, and asks; those that have ended are forgotten."""
        for shown in list(self._left):
            try:
                story = self._gateway.story(shown.run_id or "")
            except Failure:
                continue  # whatever is wrong, sending will tell
            if asks(story):
                self._left.remove(shown)
                return shown
            if has_ended(story):
                self._left.remove(shown)
        return None

    def _stop(self) -> str:
        shown = self.asking or self._newest  # whoever sees a question means the run that asks it
        if shown is None or shown.run_id is None:
            raise Failure("No run of this talk is known; `lucyd cancel` ends one by its id.")
        said = cancel_run(shown.run_id, self._gateway)
        self.asking = None
        return said
