"""Which part of a session was not consolidated yet."""

from dataclasses import dataclass

from shared.ports.backlog import SessionLine


@dataclass(frozen=True, slots=True)
class Span:
    """``count`` messages, the first of them at index ``start``."""

    start: int
    count: int


def unconsolidated(line: SessionLine, *, at_least: int) -> Span | None:
    """All on the first run, else from the last count; ``None`` when fewer than ``at_least`` messages are new.

    A compaction has rewritten the line, so the last count means nothing any more; its index 0 is the summary of what
    was consolidated before, and left out.
    """
    if line.mark is None:
        start = 0
    elif line.mark.compactions == line.compactions:
        start = line.mark.messages
    else:
        start = 1
    count = line.messages - start
    return Span(start, count) if count >= max(at_least, 1) else None
