"""What was told in one step, in as few pieces as it can be said."""

from collections.abc import Mapping
from typing import Any

from shared.messages.run_events import TEXT_EVENTS

CHARACTERS = 4_000_000
"""A step that tells more is kept up to there; the memory of a worker has an end."""

EVENT_COSTS = 100
"""Characters; what an event takes beside its data."""


class StepRecord:
    """Events of one step; neighbouring pieces of text are one, under the sequence of the last."""

    def __init__(self, *, at_most: int = CHARACTERS) -> None:
        self._events: list[tuple[int, str, Mapping[str, Any]]] = []
        self._type = ""
        self._sequence = 0
        self._pieces: list[str] = []
        self._left = at_most

    def add(self, sequence: int, type: str, data: Mapping[str, Any]) -> None:
        """Remember an event; what comes after one that there was no room for is left out as well."""
        if type in TEXT_EVENTS:
            self.add_text(sequence, type, data["text"])
        elif self._has_room(len(str(data)) + EVENT_COSTS):
            self._close()
            self._events.append((sequence, type, data))

    def add_text(self, sequence: int, type: str, text: str) -> None:
        """Remember a piece of text, as ``add`` does."""
        if self._has_room(len(text)):
            if type != self._type:
                self._close()
            self._type, self._sequence = type, sequence
            self._pieces.append(text)

    def _has_room(self, characters: int) -> bool:
        self._left = max(-1, self._left - characters)
        return self._left >= 0

    def events(self) -> tuple[tuple[int, str, Mapping[str, Any]], ...]:
        """All that was remembered, in order."""
        self._close()
        return tuple(self._events)

    def _close(self) -> None:
        if self._pieces:
            self._events.append((self._sequence, self._type, {"text": "".join(self._pieces)}))
        self._type, self._pieces = "", []
