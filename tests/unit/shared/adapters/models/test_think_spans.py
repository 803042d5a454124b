"""Thinking between tags, split off while it streams."""

from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.models.think_spans import Delta, ThinkSpans, split_thinking

PARTS = st.lists(
    st.sampled_from(["<think>", "</think>", "<thi", "nk>", "</", "<", ">", " ", "\n", "a", "b c"]), max_size=14
)


def _feed(pieces: list[str]) -> tuple[str, str]:
    spans = ThinkSpans()
    told: list[Delta] = [delta for piece in pieces for delta in spans.feed(piece)] + spans.close()
    return (
        "".join(piece for kind, piece in told if kind == "text"),
        "".join(piece for kind, piece in told if kind == "thinking"),
    )


@given(PARTS)
def test_the_stream_splits_as_the_whole_does(parts: list[str]) -> None:
    """What viewers saw piece by piece is what is stored."""
    whole = "".join(parts)
    assert _feed(parts) == _feed(list(whole)) == split_thinking(whole)


@given(st.text(alphabet="ab <>/\n"))
def test_text_without_tags_comes_through_unchanged(text: str) -> None:
    assert _feed(list(text)) == (text, "")


def test_a_span_is_thinking_and_the_space_behind_it_is_nobodys() -> None:
    assert split_thinking("<think>\nhm</think>\n\nYes.\n") == ("Yes.\n", "\nhm")


def test_a_span_that_never_ends_is_thinking() -> None:
    """The answer was cut short while the model still thought."""
    assert split_thinking("<think>and then") == ("", "and then")


def test_half_a_tag_is_held_back_until_it_is_known() -> None:
    spans = ThinkSpans()
    assert spans.feed("a <thi") == [("text", "a ")]
    assert spans.feed("s") == [("text", "<this")]
