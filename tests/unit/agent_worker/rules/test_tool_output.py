"""A result that is too long must neither flood the window nor turn into something unreadable."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.agent_worker.rules.tool_output import output_limit, storable, truncate

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
)


@given(st.text(), st.integers(min_value=0, max_value=200))
def test_a_result_never_exceeds_its_limit(text: str, limit: int) -> None:
    """The limit is what the window was planned with."""
    short = truncate(text, limit)
    assert len(short) <= limit
    assert short == text or len(text) > limit


@given(JSON, st.integers(min_value=0, max_value=300), st.sampled_from([None, 2]))
def test_cut_json_stays_within_its_limit_and_is_json_or_head_and_tail(
    value: Any, limit: int, indent: int | None
) -> None:
    """Half a JSON document confuses a model more than a shorter whole one."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    short = truncate(text, limit)
    assert len(short) <= limit
    if "characters cut]" not in short and limit > 60 and isinstance(value, list | dict):
        json.loads(short)


@given(st.lists(st.integers(), min_size=40), st.integers(min_value=80, max_value=120))
def test_a_cut_list_begins_as_the_whole_one_and_counts_what_is_missing(numbers: list[int], limit: int) -> None:
    """Nothing is reordered, and the model knows that there is more."""
    text = json.dumps(numbers)
    short = truncate(text, limit)
    if len(text) <= limit:
        assert short == text
        return
    *kept, marker = json.loads(short)
    assert kept
    assert kept == numbers[: len(kept)]
    assert marker == f"... ({len(numbers) - len(kept)} more left out)"


def test_a_cut_object_counts_the_keys_that_are_missing() -> None:
    """Objects are cut like lists."""
    short = json.loads(truncate(json.dumps({f"key{n}": n for n in range(100)}), 200))
    assert short.pop("...") == f"{100 - len(short)} more left out"
    assert short == {f"key{n}": n for n in range(len(short))}


def test_the_list_within_an_object_is_cut_where_it_overflows() -> None:
    """Search results come wrapped; dropping the wrapped list whole would leave nothing."""
    value = {"query": "x", "results": [{"n": n} for n in range(100)], "total": 100}
    short = json.loads(truncate(json.dumps(value), 300))
    assert short["query"] == "x"
    assert short["results"][:10] == value["results"][:10]  # type: ignore[index]
    assert short["results"][-1].startswith("... (")
    assert short["..."] == "1 more left out"


def test_the_marker_takes_no_key_that_is_in_use() -> None:
    """A key given twice would swallow one of the values."""
    value = {"...": "mine", **{f"key{n}": n for n in range(100)}}
    short = json.loads(truncate(json.dumps(value), 200))
    assert short["..."] == "mine"
    assert "more left out" in short["...."]


def test_numbers_and_escapes_of_json_stay_to_the_letter() -> None:
    """Re-encoding would round long numbers and turn escapes into what can't be stored."""
    text = '[1.10, 123456789012345678901234567890.5, "\\ud800", ' + ", ".join(["0"] * 200) + "]"
    assert truncate(text, 200).startswith('[1.10, 123456789012345678901234567890.5, "\\ud800", 0')


@pytest.mark.parametrize(
    "text", ["[1, 2, NaN" + ", 3" * 100 + "]", "[1" + ", 2" * 100, "[" * 5000 + "]" * 5000, "[1] " * 99]
)
def test_what_only_looks_like_json_is_cut_as_text(text: str) -> None:
    """Logs begin with brackets, and nothing may bring the reader down."""
    short = truncate(text, 200)
    assert "characters cut]" in short
    assert len(short) <= 200


def test_one_giant_element_is_cut_as_text() -> None:
    """An empty list with a marker would tell the model nothing."""
    short = truncate(json.dumps(["x" * 1000]), 200)
    assert "characters cut]" in short
    assert "xxx" in short


def test_text_keeps_seventy_percent_head_and_the_rest_tail() -> None:
    """Commands say how they ended at the end, files what they are at the beginning."""
    text = "a" * 5000 + "b" * 5000
    short = truncate(text, 1000)
    head, marker, tail = short.partition("\n... [")
    assert marker
    assert set(head) == {"a"}
    assert tail.endswith("b" * 280)
    assert 0.68 <= len(head) / (len(head) + short.count("b")) <= 0.72
    cut = int(tail.split(" ", maxsplit=1)[0])
    assert len(head) + short.count("b") + cut == len(text)


@pytest.mark.parametrize(("window", "limit"), [(0, 30_000), (8192, 8192), (200_000, 30_000)])
def test_a_result_fills_at_most_a_quarter_of_a_known_window(window: int, limit: int) -> None:
    """A small local model must not be flooded by one file."""
    assert output_limit(30_000, window) == limit


@given(st.text(alphabet=st.characters()))
def test_a_storable_text_has_its_length_and_can_be_stored(text: str) -> None:
    """Postgres has no NUL, UTF-8 has no lone surrogates; a result with one must not kill the step."""
    kept = storable(text)
    assert len(kept) == len(text)
    assert "\0" not in kept
    kept.encode()


def test_lone_surrogates_become_replacement_characters() -> None:
    """File names may hold any byte."""
    assert storable("a\ud800\0b") == "a\ufffd\ufffdb"
