"""Trace context as the standard has it: what is carried on, what begins anew."""

import pytest

from shared.domain.trace_context import begun, carried_on, trace_id

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = bytes(range(1, 9))
NOW = SPAN.hex()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (f"00-{TRACE}-00f067aa0ba902b7-01", f"00-{TRACE}-{NOW}-01"),
        (f"00-{TRACE}-00f067aa0ba902b7-00", f"00-{TRACE}-{NOW}-00"),
        (f"00-{TRACE}-00f067aa0ba902b7-ff", f"00-{TRACE}-{NOW}-03"),
        (f"cc-{TRACE}-00f067aa0ba902b7-01", f"00-{TRACE}-{NOW}-01"),
        (f"cc-{TRACE}-00f067aa0ba902b7-01-what-the-future-will-be", f"00-{TRACE}-{NOW}-01"),
    ],
)
def test_a_trace_goes_on_under_a_span_of_ours(given: str, expected: str) -> None:
    """Its id and its known flags stay; a newer version is read as far as we know it."""
    assert carried_on(given, SPAN) == expected


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        f"ff-{TRACE}-00f067aa0ba902b7-01",
        f"00-{TRACE}-00f067aa0ba902b7-01-more",
        f"cc-{TRACE}-00f067aa0ba902b7-01.more",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-00f067aa0ba902b7-01",
        f"00-{TRACE}-00f067aa0ba902b7-1",
        f"00-{TRACE}-00f067aa0ba902b7-01\n",
        f" 00-{TRACE}-00f067aa0ba902b7-01",
        "x" * 10_000,
    ],
)
def test_what_is_not_valid_is_not_carried_on(given: str | None) -> None:
    """The standard asks for a new trace then."""
    assert carried_on(given, SPAN) is None


def test_a_trace_that_begins_here_says_that_its_id_is_random() -> None:
    """Who samples by the id may rely on it; and it is valid for whoever comes next."""
    new = begun(bytes.fromhex(TRACE), SPAN)
    assert new == f"00-{TRACE}-{NOW}-02"
    assert trace_id(new) == TRACE
    assert carried_on(new, bytes(range(8, 16))) is not None
