"""Text on its way to the screen, with what it is."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["reply", "thinking", "aside", "warning", "error", "strong"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Text to write as it is, newlines included. ``reply`` is what the agent says; everything else is about it."""

    text: str
    kind: Kind = "aside"
