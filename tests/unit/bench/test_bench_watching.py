"""Times of three processes brought together."""

import pytest

from bench.load import Ask
from bench.watching import Receipt, hops, measured

MS = 1_000_000


def test_each_figure_is_from_one_clock() -> None:
    """Postgres tells wall time, everybody else the monotonic one."""
    ask = Ask("t", "r", due=100 * MS, sent=102 * MS, ended=350 * MS)
    receipt = Receipt("t", at=120 * MS, wall=9_012 * MS, sent=[130 * MS, 320 * MS])
    (one,) = measured([ask], [receipt], {"r": 9_004 * MS})
    assert (one.accepted, one.asked, one.whole, one.overhead) == (8.0, 20.0, 250.0, 50.0)


def test_the_first_receipt_of_a_message_counts() -> None:
    """A second one is a retry, and belongs to what Lucyd took."""
    ask = Ask("t", "r", due=0, sent=0, ended=10 * MS)
    receipts = [Receipt("t", 1 * MS, 1 * MS, [2 * MS]), Receipt("t", 5 * MS, 5 * MS, [6 * MS])]
    assert measured([ask], receipts, {"r": 0})[0].asked == 1.0


def test_a_run_that_the_model_never_saw_is_a_fault() -> None:
    """It was answered by somebody else."""
    with pytest.raises(KeyError):
        measured([Ask("t", "r", 0, 0, 1)], [], {"r": 0})


def test_hops_are_of_the_pieces_that_have_come() -> None:
    """A stream that broke has fewer, and is told as wrong elsewhere."""
    receipt = Receipt("t", 0, 0, [10 * MS, 20 * MS, 30 * MS])
    assert hops([receipt], {"t": [15 * MS, 50 * MS]}) == [5.0, 30.0]
    assert hops([receipt], {}) == []
