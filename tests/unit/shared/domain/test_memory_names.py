"""One thing has one name, however it is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.memory_names import LONGEST_NAME, memory_name, names_in


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Anna Smith", "anna_smith"),
        ("  favourite  __ colour ", "favourite_colour"),
        ("\u00c4RGER", "\u00e4rger"),
        ("A\u0308rger", "\u00e4rger"),
        ("a\x00b\nc", "a_b_c"),
        ("_ _", ""),
        ("note: I like jazz", "note:_i_like_jazz"),
    ],
)
def test_names_are_lower_case_with_underscores(written: str, name: str) -> None:
    """Else the same fact is stored twice."""
    assert memory_name(written) == name


@given(st.text(max_size=200))
def test_a_name_stays_what_it_is(text: str) -> None:
    """Written by a model that has read it, it means the same."""
    name = memory_name(text)
    assert memory_name(name) == name
    assert " " not in name


def test_a_question_may_mean_one_two_or_three_words() -> None:
    """As entities are called."""
    found = names_in("What does Anna Maria Smith's boss (Tom) like?")
    assert {"anna", "anna_maria", "anna_maria_smith", "maria_smith_boss", "tom"} <= found
    assert "does_anna_maria_smith" not in found


@given(st.text(max_size=3000))
def test_any_question_gives_names_that_an_entity_may_have(text: str) -> None:
    """Whatever a model writes there."""
    assert all(0 < len(name) <= LONGEST_NAME for name in names_in(text))
