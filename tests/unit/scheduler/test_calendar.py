"""What is due, and that everybody gives it the same name."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.scheduler.rules.calendar import CONSOLIDATE, ERRANDS, INDEX, MAINTAIN, Errand, due, latest


def at(hour: int, minute: int, second: int = 0) -> datetime:
    return datetime(2026, 3, 4, hour, minute, second, tzinfo=UTC)


@pytest.mark.parametrize(
    ("errand", "now", "expected"),
    [
        (INDEX, at(10, 9, 59), at(10, 0)),
        (INDEX, at(10, 10), at(10, 10)),
        (CONSOLIDATE, at(10, 14), at(9, 15)),
        (CONSOLIDATE, at(10, 15), at(10, 15)),
        (MAINTAIN, at(4, 5), at(4, 5)),
        (MAINTAIN, at(4, 4), datetime(2026, 3, 3, 4, 5, tzinfo=UTC)),
    ],
)
def test_errands_fall_due_by_the_clock(errand: Errand, now: datetime, expected: datetime) -> None:
    """Index every ten minutes, consolidate at :15, maintain at 04:05: people plan around these."""
    assert latest(errand, now) == expected


def test_a_leader_that_comes_late_still_asks_for_what_is_due() -> None:
    """The night's upkeep must not be skipped because the leader changed at 04:05."""
    assert [each.job_id for each in due(at(4, 50))] == [
        "index_20260304T0450",
        "consolidate_20260304T0415",
        "maintain_20260304T0405",
    ]


def test_what_is_long_past_waits_for_its_next_time() -> None:
    """Starting the machine in the evening does not do the night's work."""
    assert "maintain" not in {each.errand.name for each in due(at(18, 0))}


@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - asked for so
    st.sampled_from(ERRANDS),
)
def test_a_due_time_is_never_ahead_and_never_older_than_a_period(now: datetime, errand: Errand) -> None:
    """So between two due times every leader makes the same job id, and it is one that RQ takes."""
    slot = latest(errand, now)
    assert timedelta(0) <= now - slot < errand.every
    assert latest(errand, slot) == slot
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", each.job_id) for each in due(now))
