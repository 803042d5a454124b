"""Pieces of a file put together again. Pure."""

from collections.abc import Sequence

from shared.domain.memory import Passage


def stitched(passages: Sequence[Passage]) -> tuple[str, int, int]:
    """The text, each line once, and its first and last line. ``passages`` are some, in the order of their lines.

    Where lines are missing between two of them, a line of dots says so.
    """
    texts: list[str] = []
    reached = first = passages[0].start_line - 1
    for passage in passages:
        lines = passage.text.split("\n")
        if passage.start_line > reached + 1:
            texts.append("...")
        texts += lines[max(0, reached + 1 - passage.start_line) :]
        reached = max(reached, passage.end_line)
    return "\n".join(texts), first + 1, reached
