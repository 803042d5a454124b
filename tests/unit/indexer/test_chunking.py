"""How files are cut into pieces."""

from hashlib import sha256
from itertools import zip_longest

from hypothesis import given
from hypothesis import strategies as st

from services.indexer.rules.chunking import Chunking

Lines = st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=60), max_size=40)


def spans(text: str, size: int = 1600, overlap: int = 320) -> list[tuple[int, int]]:
    return [(chunk.start_line, chunk.end_line) for chunk in Chunking(size, overlap).chunks("a", text)]


def test_whole_lines_are_packed_and_the_last_ones_begin_the_next_piece() -> None:
    """A hundred lines of 99 characters: sixteen fill 1,599 with their ends, three make 300 of the 320 shared ones."""
    text = "\n".join("x" * 99 for _ in range(40))
    assert spans(text) == [(1, 16), (14, 29), (27, 40)]


def test_a_line_longer_than_a_piece_stands_alone() -> None:
    """A line is never torn: its number is what people and tools know it by."""
    text = "short\n" + "x" * 5000 + "\nshort\nlast"
    assert spans(text) == [(1, 1), (2, 2), (3, 4)]


def test_lines_are_shared_only_where_the_next_one_has_room() -> None:
    """Else a piece would be nothing but the end of the one before it, and be found twice."""
    assert spans("\n".join(["x" * 99] * 16 + ["y" * 1450, "z"])) == [(1, 16), (16, 18)]


def test_a_piece_is_known_by_its_file_and_its_text() -> None:
    """Moved up or down in a file, it is still the same."""
    (chunk,) = Chunking().chunks("memory/a.md", "Z\u00fcrich\r\nand back\n")
    assert (chunk.start_line, chunk.end_line, chunk.text) == (1, 2, "Z\u00fcrich\nand back")
    assert chunk.id == sha256("memory/a.md:Z\u00fcrich\nand back".encode()).hexdigest()


def test_an_empty_file_has_no_piece() -> None:
    """There is nothing to find."""
    assert spans("") == []
    assert spans("\n") == [(1, 1)]


@given(Lines, st.integers(1, 100), st.data())
def test_every_line_is_in_a_piece_and_no_piece_is_longer_than_allowed(
    lines: list[str], size: int, data: st.DataObject
) -> None:
    """Nothing is lost, whatever the file looks like, and it comes to an end."""
    overlap = data.draw(st.integers(0, size - 1))
    chunks = Chunking(size, overlap).chunks("a", "".join(f"{line}\n" for line in lines))
    covered = set()
    for chunk, following in zip_longest(chunks, chunks[1:]):
        assert chunk.text == "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
        assert len(chunk.text) <= size or chunk.start_line == chunk.end_line
        covered |= set(range(chunk.start_line, chunk.end_line + 1))
        if following is not None:
            shared = lines[following.start_line - 1 : chunk.end_line]
            assert sum(len(line) + 1 for line in shared) <= overlap
            assert chunk.start_line < following.start_line <= chunk.end_line + 1
            assert following.end_line > chunk.end_line
    assert covered == set(range(1, len(lines) + 1))
