"""Room for one run that two processes died with: two at once could hide behind each other."""

from collections import OrderedDict

STRONG = 2
"""Deaths after which a run is taken one at a time."""


class Suspects:
    """At most one strong suspect in hand; the others wait here, the one that came first being next."""

    def __init__(self) -> None:
        self._in_hand: str | None = None
        self._waiting: OrderedDict[str, None] = OrderedDict()

    @property
    def room(self) -> bool:
        """Whether one may be claimed."""
        return self._in_hand is None

    def take(self, conversation: str) -> bool:
        """Take one in hand; false when somebody was quicker."""
        if self._in_hand is not None:
            return self._in_hand == conversation
        self._in_hand = conversation
        self._waiting.pop(conversation, None)
        return True

    def wait(self, conversation: str) -> None:
        """It was refused for want of room."""
        self._waiting[conversation] = None

    def leave(self, conversation: str) -> str | None:
        """It is not in hand any more; which conversation may be tried next."""
        if self._in_hand != conversation:
            return None
        self._in_hand = None
        return self._waiting.popitem(last=False)[0] if self._waiting else None
