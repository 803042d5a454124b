"""Whatever a person, a model or a tool says can be stored."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.postgres.documents import to_json

texts = st.text(st.characters(codec=None))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_every_value_becomes_json_that_jsonb_takes(value: Any) -> None:
    """A fault here would break the step of a run, and each retry of it."""
    text = to_json(value)
    text.encode()
    decoded = json.loads(text)
    assert "\0" not in json.dumps(decoded, ensure_ascii=False)
    assert type(decoded) is type(value) or isinstance(value, int)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("a\0b", "a\ufffdb"),
        ("a\ud83db", "a\ufffdb"),
        ("\\u0000", "\\u0000"),
        ({"k\0": ["\0"]}, {"k\ufffd": ["\ufffd"]}),
        ({"n": 10**30}, {"n": str(10**30)}),
        ({"n": 2**64 - 1, "m": -(2**63)}, {"n": 2**64 - 1, "m": -(2**63)}),
        (Decimal("0.10"), "0.10"),
        ("grüß 🙂", "grüß 🙂"),
    ],
)
def test_what_jsonb_can_not_hold_is_replaced(value: Any, stored: Any) -> None:
    """And everything else stays as it is."""
    assert json.loads(to_json(value)) == stored
