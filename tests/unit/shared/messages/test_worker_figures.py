"""What workers tell each other in their monitor hashes."""

from datetime import timedelta

import pytest

from shared.messages.worker_figures import FIELDS, WorkerFigures, figures_of

FIGURES = WorkerFigures("6f1c/0-1", "no (memory)", 3, 128, 7, timedelta(milliseconds=1250))


def test_what_is_told_is_read() -> None:
    """Under the names that operators know."""
    told = FIGURES.told()
    assert tuple(told) == FIELDS
    assert told["in_line_ms"] == "1250"
    assert figures_of(told) == FIGURES
    assert not FIGURES.takes
    assert figures_of({**told, "taking": "yes", "pid": "17"}) is not None


@pytest.mark.parametrize("missing", FIELDS)
def test_a_worker_that_does_not_tell_all_is_left_out(missing: str) -> None:
    """It is gone, or is of older code, which runs beside newer code in a rolling restart."""
    assert figures_of({**FIGURES.told(), missing: None}) is None
    assert figures_of({name: value for name, value in FIGURES.told().items() if name != missing}) is None


@pytest.mark.parametrize("number", ["", "-1", "1.5", "many", "²"])
def test_a_figure_that_is_no_number_is_left_out(number: str) -> None:
    """Anybody can write to Redis."""
    assert figures_of({**FIGURES.told(), "slots": number}) is None
