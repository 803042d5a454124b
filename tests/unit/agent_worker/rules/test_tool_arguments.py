"""Models send arguments in every shape; a tool must only ever see the one its schema promises."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent_worker.rules.tool_arguments import checked_arguments
from shared.errors import BadInput

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "offset": {"type": "integer"},
        "speed": {"type": "number"},
        "all": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "tags": {"type": "array", "items": {"type": "integer"}},
        "either": {"type": ["integer", "null"]},
        "more": {"type": "object"},
        "free": {},
    },
    "required": ["path"],
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        ({"offset": "12"}, {"offset": 12}),
        ({"offset": " -3 "}, {"offset": -3}),
        ({"offset": 4.0}, {"offset": 4}),
        ({"speed": "1.5"}, {"speed": 1.5}),
        ({"speed": "2"}, {"speed": 2}),
        ({"speed": 10**400}, {"speed": 10**400}),
        ({"all": "True"}, {"all": True}),
        ({"all": "false"}, {"all": False}),
        ({"tags": ["1", 2]}, {"tags": [1, 2]}),
        ({"either": "7"}, {"either": 7}),
        ({"either": None}, {"either": None}),
        ({"more": {"a": "1"}}, {"more": {"a": "1"}}),
        ({"free": [None]}, {"free": [None]}),
        ({"free": None}, {"free": None}),
    ],
)
def test_scalars_in_another_coat_are_taken_as_the_schema_wants_them(sent: Any, taken: Any) -> None:
    """Small models quote numbers; refusing them would cost a turn each time."""
    assert checked_arguments(SCHEMA, {"path": "a", **sent}) == {"path": "a", **taken}


def test_a_string_stays_a_string_even_if_it_looks_like_a_number() -> None:
    """A file may be called 12."""
    assert checked_arguments(SCHEMA, {"path": "12"}) == {"path": "12"}


def test_null_for_an_optional_argument_counts_as_left_out() -> None:
    """Models spell a default as null."""
    assert checked_arguments(SCHEMA, {"path": "a", "offset": None}) == {"path": "a"}


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        ({}, "missing required argument 'path'"),
        ({"path": None}, "'path' must be a string, not null"),
        ({"path": 3}, "'path' must be a string, not an integer"),
        ({"path": "a", "what": 1}, "unknown argument 'what'"),
        ({"path": "a", "offset": "many"}, "'offset' must be an integer, not a string"),
        ({"path": "a", "offset": 1.5}, "'offset' must be an integer, not a fraction"),
        ({"path": "a", "offset": True}, "'offset' must be an integer, not a boolean"),
        ({"path": "a", "offset": "9" * 5000}, "'offset' must be an integer, not a string"),
        ({"path": "a", "speed": "nan"}, "'speed' must be a number, not a string"),
        ({"path": "a", "speed": "fast"}, "'speed' must be a number, not a string"),
        ({"path": "a", "all": "yes"}, "'all' must be true or false, not a string"),
        ({"path": "a", "mode": "quick"}, "'mode' must be one of fast, slow"),
        ({"path": "a", "tags": "1"}, "'tags' must be an array, not a string"),
        ({"path": "a", "tags": [1, "x"]}, "'tags'[1] must be an integer, not a string"),
        ({"path": "a", "more": []}, "'more' must be an object, not an array"),
        ({"path": "a", "either": []}, "'either' must be an integer or null, not an array"),
        ({"raw": '{"path": '}, "the arguments are not valid JSON; send one JSON object"),
    ],
)
def test_a_mistake_is_named(sent: Any, complaint: str) -> None:
    """The model corrects what it is told."""
    with pytest.raises(BadInput) as caught:
        checked_arguments(SCHEMA, sent)
    assert str(caught.value) == complaint


def test_all_mistakes_are_named_at_once_and_no_value_is_repeated() -> None:
    """One round of correction instead of three, and no secret in the answer."""
    with pytest.raises(BadInput) as caught:
        checked_arguments(SCHEMA, {"offset": "s3cret", "nope": "s3cret"})
    assert str(caught.value).count(";") == 2
    assert "s3cret" not in str(caught.value)


def test_a_declared_argument_called_raw_is_an_ordinary_one() -> None:
    """Only an undeclared raw means unreadable JSON."""
    schema = {"type": "object", "properties": {"raw": {"type": "string"}}}
    assert checked_arguments(schema, {"raw": "x"}) == {"raw": "x"}


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"properties": {}, "additionalProperties": True}])
def test_a_schema_that_declares_nothing_admits_anything(schema: Any) -> None:
    """Schemas of foreign tools may be open on purpose."""
    assert checked_arguments(schema, {"a": 1}) == {"a": 1}


@given(st.dictionaries(st.sampled_from([*SCHEMA["properties"], "odd"]), JSON))
def test_whatever_is_sent_is_taken_in_the_schema_types_or_refused(sent: dict[str, Any]) -> None:
    """The tools rely on it: no third way, and what was sent is left as it was."""
    before = repr(sent)
    try:
        taken = checked_arguments(SCHEMA, sent)
    except BadInput:
        pass
    else:
        assert isinstance(taken["path"], str)
        assert type(taken.get("offset", 0)) is int
        assert type(taken.get("all", False)) is bool
        assert type(taken.get("speed", 0)) in {int, float}
    assert repr(sent) == before
