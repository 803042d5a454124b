"""Tell what became of a message."""

from cli.edge.gateway_client import Gateway
from cli.edge.screen import Screen
from cli.rules.story_view import story_pieces


def tell_story(run: str, gateway: Gateway, screen: Screen) -> None:
    """The run with this id, or whose id begins so; raises ``Failure`` when there is none, or more than one."""
    screen.show(story_pieces(gateway.story(run)))
