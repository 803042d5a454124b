"""The conversation at the prompt of ``lucyd chat``."""

from dataclasses import dataclass

from cli.actions.reset_sessions import reset_terminal
from cli.actions.send_message import Outgoing, send_message
from cli.actions.show_cost import show_cost
from cli.actions.show_sessions import show_sessions
from cli.edge.gateway_client import Gateway
from cli.edge.line_input import LineInput
from cli.edge.screen import Screen
from cli.rules.clean_text import one_line
from cli.rules.failure import Failure
from cli.rules.slash import HELP, Order, Say, understand
from cli.rules.teller import Teller


@dataclass(frozen=True, slots=True)
class Manner:
    """How to talk: under which name, and whether thoughts are shown."""

    sender: str | None = None
    thinking: bool = False


def greet(gateway: Gateway, screen: Screen) -> None:
    """Say who answers; raises ``Failure`` when nobody does."""
    status = gateway.status()
    agent, model = one_line(status.get("agent") or "Lucyd", 40), one_line(status.get("model") or "", 48)
    told = " · ".join(each for each in (f"{agent} at {gateway.url}", model, "/help", "Ctrl-D ends") if each)
    screen.say(told, "aside")


def converse(lines: LineInput, gateway: Gateway, screen: Screen, manner: Manner) -> bool:
    """Talk until the person ends it; false when the last message got no reply. No single fault ends it."""
    well = True
    while (line := lines.ask()) is not None:
        wish = understand(line)
        if wish is None:
            continue
        if isinstance(wish, Order) and wish.name == "quit":
            break
        try:
            well = (
                _say(wish, gateway, screen, manner) if isinstance(wish, Say) else _obey(wish, gateway, screen, manner)
            )
        except Failure as fault:
            well = False
            screen.say(str(fault), "error")
        except KeyboardInterrupt:
            screen.say("")  # an order was abandoned; a message says so itself
    return well


def _say(wish: Say, gateway: Gateway, screen: Screen, manner: Manner) -> bool:
    teller = Teller(aloud=screen.is_terminal, thinking=manner.thinking)
    end = send_message(Outgoing(wish.text, sender=manner.sender), gateway, screen, teller)
    return end not in {"failed", "cancelled"}


def _obey(order: Order, gateway: Gateway, screen: Screen, manner: Manner) -> bool:
    match order.name:
        case "reset":
            screen.say(reset_terminal(gateway, manner.sender))
        case "cost":
            show_cost(order.rest or "today", gateway, screen)
        case "sessions":
            show_sessions(gateway, screen)
        case "help":
            screen.say(HELP)
        case _:
            raise Failure(f"There is no command {one_line(order.typed, 20)}; /help lists them.")
    return True
