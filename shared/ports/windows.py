"""Sliding windows: how often something was done in the time just past, and whether it may be done once more."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Place:
    """The answer to a request for a place in a window. ``left``: how many more there are now.

    ``frees_in``: when the oldest place in the window is free again; whoever got none comes back then.
    """

    taken: bool
    left: int
    frees_in: timedelta


class Windows(Protocol):
    """Windows by name; one exists as soon as somebody asks for a place in it."""

    async def take(self, name: str, *, limit: int, per: timedelta) -> Place:
        """Take a place, if fewer than ``limit`` were taken within the last ``per``; a refusal takes none.

        Raises ``TryLater``; then a place may have been taken.
        """
        ...
