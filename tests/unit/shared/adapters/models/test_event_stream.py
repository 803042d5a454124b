"""Server-sent events, however the network cuts them."""

import time
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.models.event_stream import EventStream

WIRE = b'event: a\r\ndata: {"n": 1}\r\n\r\n: comment\n\ndata: two\ndata: lines\n\ndata:[DONE]\n\n'


@given(st.lists(st.integers(0, len(WIRE)), max_size=8))
def test_events_are_the_same_wherever_the_bytes_are_cut(cuts: list[int]) -> None:
    """A chunk ends where the network likes, also between the two characters of a line's end."""
    places = [0, *sorted(cuts), len(WIRE)]
    stream = EventStream()
    events = [event for start, end in pairwise(places) for event in stream.feed(WIRE[start:end])]
    assert events + stream.close() == [b'{"n": 1}', b"two\nlines", b"[DONE]"]


def test_a_last_event_without_its_empty_line_still_counts() -> None:
    """Some servers close the connection right behind ``[DONE]``."""
    stream = EventStream()
    assert stream.feed(b"data: [DONE]") == []
    assert stream.close() == [b"[DONE]"]


def test_a_long_event_in_many_chunks_costs_no_more_than_in_one() -> None:
    """An image or a whole file may come as one line; copying it again for each chunk would stop the worker."""
    stream, part = EventStream(), b"x" * 1000
    begun = time.process_time()
    assert [event for _ in range(20_000) for event in stream.feed(part)] == []
    assert stream.feed(b"\n\n") == []
    assert stream.feed(b"data: y\n\n") == [b"y"]
    assert time.process_time() - begun < 2
