"""Show what was given up, and decide about it."""

from cli.edge.gateway_client import Gateway
from cli.edge.screen import Screen
from cli.rules.clean_text import one_line
from cli.rules.dead_view import dead_pieces, dead_table, retried_sentence


def show_dead(gateway: Gateway, screen: Screen) -> None:
    """A table of all about which nobody has decided."""
    letters = gateway.dead()
    if letters:
        screen.table(dead_table(letters))
    else:
        screen.say("Nothing was given up.")


def show_dead_letter(id: str, gateway: Gateway, screen: Screen) -> None:
    """One of them; raises ``Failure`` when nobody knows it."""
    screen.show(dead_pieces(gateway.dead_letter(id)))


def retry_dead(id: str, gateway: Gateway, screen: Screen) -> None:
    """Once more; raises ``Failure`` when nobody knows it, or it can't be tried again."""
    screen.say(retried_sentence(gateway.retry_dead(id)))


def drop_dead(id: str, gateway: Gateway, screen: Screen) -> None:
    """Never; raises ``Failure`` as above."""
    answer = gateway.drop_dead(id)
    screen.say(f"Dropped: {one_line(answer.get('kind', ''), 12)} {one_line(answer.get('id', id))}.")
