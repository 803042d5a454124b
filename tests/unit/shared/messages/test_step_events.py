"""What was heard before a cut and what is told after it make the whole, wherever the cut is."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.messages.run_events import STEP, EventType, RunEvent, event_id
from shared.messages.step_events import events_of_step, rest_of

EPOCH, ITS_STEP = 3, 2
BASE = ITS_STEP * STEP

piece = st.tuples(st.sampled_from(["delta", "delta", "thinking", "notice"]), st.text(min_size=1, max_size=7))


def as_told(pieces: Sequence[tuple[str, str]]) -> list[list[object]]:
    """Entries as a worker counts them, none of them joined."""
    entries, offset = [], 0
    for kind, text in pieces:
        offset += 1 if kind == "notice" else len(text)
        entries.append([BASE + offset, kind, {"text": text}])
    return entries


def joined(entries: Sequence[Sequence[object]]) -> list[list[object]]:
    """Neighbouring pieces of text as one, as they are stored."""
    whole: list[list[object]] = []
    for sequence, kind, data in entries:
        assert isinstance(data, dict)
        if whole and kind != "notice" and whole[-1][1] == kind:
            before = whole[-1][2]
            assert isinstance(before, dict)
            whole[-1] = [sequence, kind, {"text": before["text"] + data["text"]}]
        else:
            whole.append([sequence, kind, data])
    return whole


def texts(events: Sequence[RunEvent]) -> list[tuple[str, str]]:
    """Runs of one kind with their text; notices apart."""
    said: list[tuple[str, str]] = []
    for event in events:
        if said and event.type != "notice" and said[-1][0] == event.type:
            said[-1] = (event.type, said[-1][1] + event.data["text"])
        else:
            said.append((event.type, event.data["text"]))
    return said


@given(st.lists(piece, max_size=20), st.data())
def test_a_cut_at_any_event_loses_and_repeats_nothing(pieces: list[tuple[str, str]], data: st.DataObject) -> None:
    """The client heard single pieces; what is stored was joined."""
    entries = as_told(pieces)
    heard_of = data.draw(st.integers(0, len(entries)))
    heard = events_of_step(EPOCH, entries[:heard_of], after="0-0")
    last = heard[-1].id if heard else event_id(EPOCH, ITS_STEP, 0)
    rest = events_of_step(EPOCH, joined(entries), after=last)
    assert texts([*heard, *rest]) == texts(events_of_step(EPOCH, entries, after="0-0"))
    assert not rest or rest[-1].id == f"{EPOCH}-{entries[-1][0]}"


@pytest.mark.parametrize(
    ("after", "left"),
    [
        ("0-0", "abcdef"),
        (event_id(2, 9, 9), "abcdef"),
        (event_id(3, 1, 4), "abcdef"),
        (event_id(3, 2, 0), "abcdef"),
        (event_id(3, 2, 4), "abcdef"),
        (event_id(3, 2, 5), "bcdef"),
        (event_id(3, 2, 9), "f"),
        (event_id(3, 2, 10), None),
        (event_id(3, 3, 1), None),
        (event_id(4, 0, 1), None),
    ],
)
def test_text_is_cut_where_the_client_stands(after: str, left: str | None) -> None:
    """Somebody in another step or epoch has heard all of it or nothing."""
    rest = rest_of(RunEvent(event_id(3, 2, 10), "delta", {"text": "abcdef"}), after)
    assert (rest.data["text"] if rest else None) == left


def test_characters_count_as_python_counts_them() -> None:
    """Code points, not bytes and not UTF-16 units."""
    rest = rest_of(RunEvent(event_id(1, 0, 4), "delta", {"text": "a\N{GRINNING FACE}ü!"}), event_id(1, 0, 2))
    assert rest is not None
    assert rest.data["text"] == "ü!"


@pytest.mark.parametrize("kind", ["notice", "tool_started", "done"])
def test_only_text_is_cut(kind: EventType) -> None:
    """Everything else is told whole or not at all."""
    event = RunEvent(event_id(1, 0, 9), kind, {"text": "a long notice"})
    assert rest_of(event, event_id(1, 0, 8)) == event


def test_where_offsets_have_come_to_their_largest_the_event_before_says_where_text_begins() -> None:
    """Nobody tells four thousand million characters in a step; it must not garble what was told before them."""
    event = RunEvent(event_id(1, 0, STEP - 1), "delta", {"text": "abcdef"}, event_id(1, 0, STEP - 3))
    rest = rest_of(event, event_id(1, 0, STEP - 2))
    assert rest is not None
    assert rest.data["text"] == "bcdef"
    short = replace(event, id=event_id(1, 0, 3), after=None)
    assert rest_of(short, event_id(1, 0, 1)) == replace(short, data={"text": "bcdef"}, after=event_id(1, 0, 1))
