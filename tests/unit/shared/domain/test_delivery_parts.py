"""How a long reply becomes several messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.delivery import parts

TEXT = st.text(
    st.one_of(st.sampled_from(list("ab \n\n\n😀é\t")), st.characters(exclude_categories=["Cs"])), max_size=300
)


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def without_blanks(text: str) -> str:
    return "".join(text.split())


def test_a_short_text_stays_as_it_is() -> None:
    """Nearly all replies are short."""
    assert parts("  hello\n\n  there ", limit=4000) == ["  hello\n\n  there"]
    assert parts("abcd", limit=4) == ["abcd"]


@pytest.mark.parametrize("text", ["", " ", "\n\n \t\n"])
def test_nothing_to_read_is_nothing_to_send(text: str) -> None:
    """Telegram refuses an empty message."""
    assert parts(text, limit=10) == []


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("one two\n\nthree four", ["one two", "three four"]),
        ("one two\nthree four", ["one two", "three four"]),
        ("one two three four", ["one two", "three four"]),
        ("one two   three", ["one two", "three"]),
        ("aaaaaaaaaaaaaaa", ["aaaaaaaaaaa", "aaaa"]),
        ("a\n\nbbb bbb bbb", ["a\n\nbbb bbb", "bbb"]),
        ("code:\n\n\n  indented", ["code:", "  indented"]),
        ("0123456789a bc", ["0123456789a", "bc"]),
    ],
)
def test_it_is_divided_at_the_best_border(text: str, pieces: list[str]) -> None:
    """A paragraph, a line or a word in two messages is hard to read; what is indented stays so."""
    assert parts(text, limit=11) == pieces


def test_signs_beyond_the_basic_plane_count_twice_and_stay_whole() -> None:
    """Telegram counts UTF-16 units; half of an emoji is not a character."""
    assert parts("😀😀😀", limit=4) == ["😀😀", "😀"]
    assert parts("😀😀😀", limit=5) == ["😀😀", "😀"]
    assert parts("😀a", limit=1) == ["😀", "a"]


@given(TEXT, st.integers(2, 40))
def test_nothing_is_lost_and_every_piece_fits(text: str, limit: int) -> None:
    """Whatever the model writes."""
    pieces = parts(text, limit=limit)
    assert without_blanks("".join(pieces)) == without_blanks(text)
    assert all(piece.strip() and units(piece) <= limit for piece in pieces)


def test_a_limit_of_nothing_is_refused() -> None:
    """It would never end."""
    with pytest.raises(ValueError, match="room"):
        parts("a", limit=0)


def test_a_very_long_text_is_divided_in_no_time() -> None:
    """A model may write a megabyte."""
    assert len(parts("word " * 200_000, limit=4000)) == 250
