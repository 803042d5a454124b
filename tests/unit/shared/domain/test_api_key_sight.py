"""Who may see that something goes on, and for whom."""

import pytest

from shared.domain.api_key import OPERATOR, ApiKey


@pytest.mark.parametrize(
    ("key", "principal", "sees"),
    [
        ("phone", "key:phone", True),
        ("phone", "key:other", False),
        ("phone", "key:default", False),
        ("phone", "telegram:1", False),
        (OPERATOR, "key:default", True),
        (OPERATOR, "telegram:1", True),
        (OPERATOR, "key:phone", False),
    ],
)
def test_a_key_sees_what_goes_on_for_it_and_the_operator_what_goes_over_no_key(
    key: str, principal: str, *, sees: bool
) -> None:
    """Sub-agents and machines of a key have conversations whose names say nothing of it: who pays is whose it is."""
    assert ApiKey(key).sees(principal) is sees
