"""Which pages somebody means."""

import pytest

from services.agent_worker.rules.page_ranges import chosen, page_ranges
from shared.errors import BadInput


@pytest.mark.parametrize(
    ("text", "count", "pages"),
    [
        ("1-5,7", 10, [1, 2, 3, 4, 5, 7]),
        ("1-", 3, [1, 2, 3]),
        ("2", 3, [2]),
        (" 3 , 1 - 2 ", 3, [3, 1, 2]),
        ("1-3,2-4", 9, [1, 2, 3, 4]),
        ("4-9", 5, [4, 5]),
        ("6", 5, []),
        ("1-999999", 2, [1, 2]),
    ],
)
def test_pages_that_are_there(text: str, count: int, pages: list[int]) -> None:
    """In the order they were named, each once."""
    assert chosen(page_ranges(text), count) == pages


@pytest.mark.parametrize("text", ["", "0", "5-3", "a", "1..3", "-2", "1,,2", "1-2-3", "9999999", ",".join("1" * 101)])
def test_what_names_no_pages_is_refused(text: str) -> None:
    """With the form that is meant."""
    with pytest.raises(BadInput, match="pages"):
        page_ranges(text)
