"""Numbers behind the question mark."""

import pytest

from services.gateway.rules.record_request import RunsQuery
from services.gateway.rules.request_body import read_as
from shared.errors import BadInput


@pytest.mark.parametrize(("text", "number"), [("7", 7), ("007", 7), ("200", 200)])
def test_a_number_is_read(text: str, number: int) -> None:
    """As the document says: an integer."""
    assert read_as(RunsQuery, {"limit": text}).limit == number


@pytest.mark.parametrize("text", ["1_0", "+5", " 5", "5.0", "", "x", "\u0665", "1" * 5000])
def test_what_only_python_reads_as_a_number_is_none(text: str) -> None:
    """Other clients and proxies would make something else of it."""
    with pytest.raises(BadInput, match='"limit" must be a whole number'):
        read_as(RunsQuery, {"limit": text})
