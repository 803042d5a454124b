"""Whether more workers do more is judged within each round."""

from bench.scaling import told


def times(*rates: float) -> list[dict[str, float]]:
    return [{"runs_per_s": rate, "cpu_ms": 5.0} for rate in rates]


def test_four_workers_are_compared_with_two_of_the_same_round() -> None:
    """A machine that was slow for one round was so for both; within a round, both came early and late."""
    found = {
        "1": [times(100), times(50)],
        "2": [times(200, 220), times(100, 100)],
        "4": [times(210, 210), times(110, 110)],
    }
    lines = told(found).splitlines()
    assert lines[-1] == "4 against 2 workers: 1.05 (1.00 1.10)"
    assert lines[0] == "1 workers     75.0 runs/s    5.00 ms a run   (100 50)"
