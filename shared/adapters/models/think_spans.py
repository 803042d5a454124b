"""``<think>...</think>`` inside a model's text is thinking, also when a tag is cut in two by the stream. Pure."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

from shared.ports.model import DeltaKind

Delta = tuple[DeltaKind, str]

_OPEN = "<think>"
_CLOSE = "</think>"


class ThinkSpans:
    """Feed it text in pieces of any size; it says which parts are text and which are thinking.

    However the text is cut, the parts of one kind joined together are the same. What may become a tag is held back
    until it is known. White space between a span and the first text after it belongs to neither, so that an answer
    does not begin with empty lines. A span that is never closed is thinking to the end.
    """

    def __init__(self) -> None:
        self._held = ""
        self._thinking = False
        self._told_text = False
        self._skip_space = False

    def feed(self, piece: str) -> list[Delta]:
        """The parts that ``piece`` settled, neighbours of one kind joined."""
        if "<" not in piece and not self._held and not self._skip_space:
            # Nearly every piece: no tag can begin in it, and none has begun before it.
            return list(self._tell(piece))
        return joined(self._settle(self._held + piece, at_end=False))

    def close(self) -> list[Delta]:
        """What was held back: at the end of the text half a tag is only text."""
        return joined(self._settle(self._held, at_end=True)) if self._held else []

    def _settle(self, text: str, *, at_end: bool) -> Iterator[Delta]:
        while True:
            tag = _CLOSE if self._thinking else _OPEN
            before, found, after = text.partition(tag)
            if not found:
                keep = 0 if at_end else _half_a_tag(text, tag)
                self._held = text[len(text) - keep :]
                yield from self._tell(text[: len(text) - keep])
                return
            yield from self._tell(before)
            self._skip_space = self._thinking and not self._told_text
            self._thinking = not self._thinking
            text = after

    def _tell(self, part: str) -> Iterator[Delta]:
        if self._thinking:
            if part:
                yield "thinking", part
            return
        if self._skip_space:
            part = part.lstrip()
        if part:
            self._skip_space = False
            # White space before the first span is not yet an answer: the space after that span is still skipped.
            self._told_text = self._told_text or not part.isspace()
            yield "text", part


def split_thinking(text: str) -> tuple[str, str]:
    """A whole text as (text, thinking)."""
    spans = ThinkSpans()
    parts = spans.feed(text) + spans.close()
    return (
        "".join(part for kind, part in parts if kind == "text"),
        "".join(part for kind, part in parts if kind == "thinking"),
    )


def _half_a_tag(text: str, tag: str) -> int:
    """How many characters at the end of ``text`` may be the beginning of ``tag``."""
    return next((size for size in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:size])), 0)


def joined(parts: Iterable[Delta]) -> list[Delta]:
    """The same parts, with neighbours of one kind made one."""
    return [(kind, "".join(part for _, part in group)) for kind, group in groupby(parts, key=itemgetter(0))]
