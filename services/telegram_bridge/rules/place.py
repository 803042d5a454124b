"""Where a conversation of Telegram takes place, and the key it is known by."""

import re
from dataclasses import dataclass

CHANNEL = "telegram"
_KEY = re.compile(r"telegram:(-?\d{1,19})(?::(\d{1,19}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """A chat, or one topic of it."""

    chat: int
    topic: int | None = None

    @property
    def conversation(self) -> str:
        """``telegram:<chat>[:<topic>]``."""
        key = f"{CHANNEL}:{self.chat}"
        return key if self.topic is None else f"{key}:{self.topic}"


def place_of(conversation: str) -> Place | None:
    """The place of a conversation's key; ``None`` for one that is not of Telegram."""
    found = _KEY.fullmatch(conversation)
    if found is None:
        return None
    return Place(int(found[1]), int(found[2]) if found[2] else None)
