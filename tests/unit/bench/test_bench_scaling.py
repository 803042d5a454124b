"""Whether more workers do more is judged within each round."""

from bench.scaling import told


def test_four_workers_are_compared_with_two_of_the_same_round() -> None:
    """A machine that was slow for one round was so for both."""
    found = {
        "1": [{"runs_per_s": 100.0, "cpu_ms": 5.0}, {"runs_per_s": 50.0, "cpu_ms": 6.0}],
        "2": [{"runs_per_s": 200.0, "cpu_ms": 5.0}, {"runs_per_s": 100.0, "cpu_ms": 5.0}],
        "4": [{"runs_per_s": 220.0, "cpu_ms": 5.0}, {"runs_per_s": 110.0, "cpu_ms": 5.0}],
    }
    lines = told(found).splitlines()
    assert lines[-1] == "4 against 2 workers: 1.10 (1.10 1.10)"
    assert lines[0] == "1 workers     75.0 runs/s    5.50 ms a run   (100 50)"
