"""Whether more workers do more is judged by measures beside each other."""

import pytest

from bench.scaling import Measure, against_neighbours, told


def measures(*rates: tuple[int, float]) -> list[Measure]:
    return [Measure(workers, rate, 5.0, 0.4) for workers, rate in rates]


def test_four_workers_are_compared_with_two_before_and_behind() -> None:
    """A machine that becomes slower all the time is no fault of theirs."""
    found = measures((1, 90), (2, 300), (4, 295), (2, 290), (4, 285), (2, 280), (4, 297), (2, 260))
    assert against_neighbours(found[1:]) == pytest.approx([1.0, 1.0, 1.1])
    lines = told(found).splitlines()
    assert lines[0] == "1 workers     90.0 runs/s    5.00 ms a run   (90)"
    assert lines[-1] == "4 against 2 workers: 1.033 +- 0.033 (1.00 1.00 1.10)"


def test_one_comparison_leaves_all_doubt() -> None:
    """Nothing is known of how far another one would lie."""
    assert told(measures((2, 300), (4, 300), (2, 300))).endswith("1.000 +- nan (1.00)")
