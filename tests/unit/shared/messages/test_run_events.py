"""Ids that make a stream resumable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.messages.run_events import (
    ACCEPTED_ID,
    STEP,
    TERMINAL_EVENTS,
    RunEvent,
    event_id,
    id_order,
    terminal_id,
    terminal_type,
)

epochs = st.integers(min_value=1, max_value=2**40)
steps = st.integers(min_value=0, max_value=2**31)
offsets = st.integers(min_value=0, max_value=STEP - 1)
places = st.tuples(epochs, steps, offsets)


@given(places, places)
def test_ids_sort_as_attempt_step_and_character(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    """Redis refuses what is not greater, so the order is the fence."""
    assert (id_order(event_id(*one)) < id_order(event_id(*other))) == (one < other)


@given(places)
def test_everything_lies_between_accepted_and_the_end(place: tuple[int, int, int]) -> None:
    """And the end of an attempt lies before everything of the next."""
    epoch = place[0]
    order = id_order(event_id(*place))
    assert id_order(ACCEPTED_ID) < order < id_order(terminal_id(epoch)) < id_order(event_id(epoch + 1, 0, 1))


@pytest.mark.parametrize("text", ["", "1", "-", "1-", "-1", "a-1", "1-b", "1-2-3", "$", "²-1"])
def test_what_is_no_id_is_refused(text: str) -> None:
    """Clients send these back in a header."""
    with pytest.raises(ValueError, match="not an event id"):
        id_order(text)


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        ({"state": "done"}, "done"),
        ({"state": "failed"}, "failed"),
        ({"state": "dead"}, "failed"),
        ({"state": "cancelled"}, "cancelled"),
        ({"state": "done", "merged_into": "another run"}, "merged"),
    ],
)
def test_every_end_has_its_event(outcome: dict[str, str], told: str) -> None:
    """Nobody waits for an event that is never told."""
    kind = terminal_type(outcome)
    assert kind == told
    assert RunEvent("1-1", kind, {}).terminal
    assert kind in TERMINAL_EVENTS
    assert not RunEvent("1-1", "delta", {}).terminal
