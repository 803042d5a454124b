"""Pieces of a file, put together again."""

from hypothesis import given
from hypothesis import strategies as st

from services.agent_worker.rules.stitching import stitched
from shared.domain.memory import Passage

LINES = [f"line {number}" for number in range(1, 41)]


def passage(first: int, last: int) -> Passage:
    return Passage("a.md", first, last, "\n".join(LINES[first - 1 : last]))


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 6)), min_size=1, max_size=6), st.integers(1, 5))
def test_each_line_stands_there_once(sizes: list[tuple[int, int]], start: int) -> None:
    """Neighbours share lines."""
    pieces, first = [], start
    for size, shared in sizes:
        pieces.append(passage(first, min(first + size, 40)))
        first = max(first + 1, first + size + 1 - shared)
        if first > 40:
            break
    end = max(piece.end_line for piece in pieces)
    assert stitched(pieces) == ("\n".join(LINES[start - 1 : end]), start, end)


def test_a_gap_is_shown() -> None:
    """Nobody shall take what stands below it for the next line."""
    assert stitched([passage(1, 2), passage(5, 5)]) == ("line 1\nline 2\n...\nline 5", 1, 5)


def test_empty_lines_count() -> None:
    """Else every number below them is wrong."""
    pieces = [Passage("a", 1, 3, "a\n\nb"), Passage("a", 2, 4, "\nb\n")]
    assert stitched(pieces) == ("a\n\nb\n", 1, 4)
