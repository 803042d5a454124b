"""Room for one run that two processes died with: two at once could hide behind each other."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

STRONG = 2
"""Deaths after which a run is taken one at a time."""


class Suspects:
    """At most one strong suspect in hand; the others wait here, the one that came first being next."""

    def __init__(self) -> None:
        self._in_hand: str | None = None
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._on_room: Callable[[str], None] | None = None

    def when_room(self, call: Callable[[str], None]) -> None:
        """Call this with a conversation that had to wait, when there is room for it."""
        self._on_room = call

    @property
    def room(self) -> bool:
        """Whether one may be claimed."""
        return self._in_hand is None

    def keep_room(self, conversation: str) -> bool:
        """Keep the room for this conversation, before anybody knows what its claim brings: once a suspect is in
        hand, it is too late to give it back. False when there is none."""
        if self._in_hand is not None:
            return self._in_hand == conversation
        self._in_hand = conversation
        self._waiting.pop(conversation, None)
        return True

    def give_up_room(self, conversation: str) -> None:
        """Its claim brought no suspect."""
        if self._in_hand == conversation:
            self._in_hand = None
            self._invite()

    def wait(self, conversation: str) -> None:
        """It was refused for want of room."""
        self._waiting[conversation] = None
        self._invite()  # the room it was refused may be free by now

    def leave(self, conversation: str) -> str | None:
        """It is not in hand any more; which conversation may be tried next."""
        if self._in_hand != conversation:
            return None
        self._in_hand = None
        return self._waiting.popitem(last=False)[0] if self._waiting else None

    def _invite(self) -> None:
        if self._in_hand is None and self._waiting and self._on_room is not None:
            conversation, _ = self._waiting.popitem(last=False)
            asyncio.get_running_loop().call_soon(self._on_room, conversation)
