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
        is_text = type in TEXT_EVENTS
        self._left -= len(data["text"]) if is_text else len(str(data)) + EVENT_COSTS
        if self._left < 0:
            self._left = -1
            return
        if not (is_text and type == self._type):
            self._close()
        if is_text:
            self._type, self._sequence = type, sequence
            self._pieces.append(data["text"])
        else:
            self._events.append((sequence, type, data))

    def events(self) -> tuple[tuple[int, str, Mapping[str, Any]], ...]:
        """All that was remembered, in order."""
        self._close()
        return tuple(self._events)

    def _close(self) -> None:
        if self._pieces:
            self._events.append((self._sequence, self._type, {"text": "".join(self._pieces)}))
        self._type, self._pieces = "", []
