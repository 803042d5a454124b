"""What goes out to a channel: one part of a reply at a time, and how a long text becomes parts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from shared.domain.outgoing_file import OutgoingFile, file_of
from shared.domain.run import RunState

DeliveryKind = Literal["reply", "notice", "question", "reaction"]
DeliveryState = Literal["pending", "sending", "sent", "in_doubt", "failed", "dropped"]

FETCHED = frozenset({"http", "cli", "system"})
"""Channels whose callers fetch their replies themselves."""

LONGEST_TELEGRAM_TEXT = 4096
"""UTF-16 units; Telegram refuses a message beyond that, whatever is configured."""

IN_DOUBT = "I can't tell whether my last message arrived. If it is missing, press the button."
SEND_AGAIN = "Send again"
BRIDGE_DIED = "the bridge ended while it was sending"

BORDERS = ("\n\n", "\n", " ")
"""Where a text is divided, the best place first: between paragraphs, lines, words."""

AFTER_BORDER = re.compile(r"^(?:(?:[^\S\n]*\n)+| +)")
"""What the next piece leaves out: blank lines, or the blanks between two words; never the indentation of a line."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """What became of words for a person: how their run stands, why it failed, and its deliveries once it has any."""

    conversation: str
    state: RunState
    error: str | None = None
    deliveries: Sequence[UUID] = ()
    states: Sequence[DeliveryState] = ()


@dataclass(frozen=True, slots=True)
class Reaction:
    """An emoji below a message of somebody; ``message`` is what the channel calls that."""

    message: str
    emoji: str

    def body(self) -> dict[str, Any]:
        """The body of the delivery that brings it."""
        return {"text": "", "reaction": {"message": self.message, "emoji": self.emoji}}


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery in hand. ``attempt`` proves it: each claim raises it, and only its holder may say what became of it.

    ``body`` is ``{"text": ...}``; a notice that offers to send another delivery again has ``again`` as well, its id,
    what brings a file has ``file``: its text stands below that; and a ``reaction`` has no text.
    """

    id: UUID
    conversation: str
    kind: DeliveryKind
    body: Mapping[str, Any]
    attempt: int
    run: UUID | None = None

    @property
    def text(self) -> str:
        """What the person shall read."""
        return str(self.body.get("text", ""))

    @property
    def file(self) -> OutgoingFile | None:
        """The file that it brings."""
        return file_of(self.body)

    @property
    def reaction(self) -> Reaction | None:
        """The reaction that it is."""
        match self.body.get("reaction"):
            case {"message": str(message), "emoji": str(emoji)}:
                return Reaction(message, emoji)
        return None


def parts(text: str, *, limit: int) -> list[str]:
    """The text in pieces of at most ``limit`` UTF-16 units (as Telegram counts), in their order; never an empty one.

    Divided between paragraphs where that leaves a piece at least half full, else between lines, else between words,
    else between code points; the blanks at a border belong to neither side. A code point is never divided, so with a
    limit of 1 a piece may have 2 units. Text of nothing but blanks gives no piece. Raises ``ValueError`` below 1.
    """
    if limit < 1:
        raise ValueError("a part needs room for one character")
    pieces = []
    rest = text.rstrip()
    while rest.strip():
        room = _fitting(rest, limit)
        if room == len(rest):
            pieces.append(rest)
            break
        end = _border(rest, room)
        if piece := rest[:end].rstrip():
            pieces.append(piece)
        rest = AFTER_BORDER.sub("", rest[end:], count=1)
    return pieces


def _fitting(text: str, limit: int) -> int:
    """How many code points of the text fit; at least one."""
    if len(text) * 2 <= limit:
        return len(text)
    units = 0
    for count, sign in enumerate(text[: limit + 1]):
        units += 2 if sign > "\uffff" else 1
        if units > limit:
            return max(count, 1)
    return min(len(text), limit + 1)


def _border(text: str, room: int) -> int:
    """Where the first piece ends, at most at ``room``."""
    for least in (room // 2, 0):
        for border in BORDERS:
            # A border may stand right behind the last sign that fits: it goes to neither piece.
            found = text.rfind(border, least, room + len(border))
            if found > least:
                return found
    return room


def is_carried(channel: str) -> bool:
    """Tell whether replies of this channel are carried out to it by a bridge."""
    return channel not in FETCHED
