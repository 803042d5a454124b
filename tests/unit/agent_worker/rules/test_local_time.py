"""What people mean by a local time, also on the two nights of the year in which clocks are changed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from services.agent_worker.rules.local_time import moment_of
from services.agent_worker.rules.schedule_list import schedule_list
from shared.domain.schedule import Schedule, ScheduleKind, schedule_id
from shared.errors import BadInput

VIENNA = ZoneInfo("Europe/Vienna")
MARCH = datetime(2026, 3, 28, 20, 0, tzinfo=UTC)
"""The evening before clocks go forward, at 2:00 on the 29th."""

OCTOBER = datetime(2026, 10, 24, 20, 0, tzinfo=UTC)
"""The evening before they go back, at 3:00 on the 25th."""


def at(when: str, now: datetime, zone: ZoneInfo = VIENNA) -> str:
    return moment_of(when, zone=zone, now=now).at.isoformat()


@pytest.mark.parametrize(
    ("when", "moment"),
    [
        ("2026-03-29T01:59", "2026-03-29T00:59:00+00:00"),
        ("2026-03-29T03:00", "2026-03-29T01:00:00+00:00"),
        ("2026-03-29 09:30:15", "2026-03-29T07:30:15+00:00"),
        ("  2026-12-24T18:00 ", "2026-12-24T17:00:00+00:00"),
        ("2026-07-01T08:00Z", "2026-07-01T08:00:00+00:00"),
        ("2026-07-01T08:00-04:00", "2026-07-01T12:00:00+00:00"),
    ],
)
def test_a_local_time_is_that_of_the_persons_clock(when: str, moment: str) -> None:
    """Summer or winter; whoever says an offset means it."""
    found = moment_of(when, zone=VIENNA, now=MARCH)
    assert (found.at.isoformat(), found.note) == (moment, "")


def test_an_hour_that_is_skipped_is_moved_by_what_clocks_skip() -> None:
    """A reminder for half past two must not be lost because that night has no such time."""
    found = moment_of("2026-03-29T02:30", zone=VIENNA, now=MARCH)
    assert found.at.isoformat() == "2026-03-29T01:30:00+00:00"  # 3:30 in Vienna
    assert "02:30 is skipped" in found.note


def test_an_hour_that_comes_twice_means_the_first_that_can_be_had() -> None:
    """And the model is told which one."""
    first = moment_of("2026-10-25T02:30", zone=VIENNA, now=OCTOBER)
    assert first.at.isoformat() == "2026-10-25T00:30:00+00:00"
    assert "the first is meant" in first.note
    in_between = datetime(2026, 10, 25, 0, 45, tzinfo=UTC)
    second = moment_of("2026-10-25T02:30", zone=VIENNA, now=in_between)
    assert second.at.isoformat() == "2026-10-25T01:30:00+00:00"
    assert "the second is meant" in second.note


def test_a_minute_ahead_is_the_least_and_366_days_are_the_most() -> None:
    """Both borders belong to what may be."""
    now = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
    utc = ZoneInfo("UTC")
    assert at("2026-05-01T12:01", now, utc) == "2026-05-01T12:01:00+00:00"
    with pytest.raises(BadInput, match=r"at least 1 minute ahead; it is 2026-05-01 12:00 now \(UTC\)"):
        at("2026-05-01T12:00:59", now, utc)
    assert at("2027-05-02T12:00", now, utc) == "2027-05-02T12:00:00+00:00"
    with pytest.raises(BadInput, match="at most 366 days ahead"):
        at("2027-05-02T12:01", now, utc)
    with pytest.raises(BadInput, match="at least 1 minute"):
        at("2025-05-01T12:00", now, utc)


@pytest.mark.parametrize(
    "when",
    ["", "tomorrow", "2026-13-01T08:00", "2026-02-30T08:00", "2026-03-01", "08:30", "2026-W10-1T08:00", "20260301T0830",
     "2026-03-01T25:00", "0001-01-01T00:00", "9999-12-31T23:59", "2026-03-01T08:30+99:00",
     "\uff12\uff10\uff12\uff16-03-01T08:30"],
)  # fmt: skip
def test_what_is_no_time_is_told_in_one_sentence(when: str) -> None:
    """The model reads the form that is wanted."""
    with pytest.raises(BadInput, match="such as 2026-03-01T08:30"):
        at(when, MARCH)


def test_every_hour_of_the_year_comes_out_once_and_in_order() -> None:
    """Whatever the zone does: nothing is lost, and what is later on the clock comes later."""
    for name in ("Europe/Vienna", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"):
        zone, now = ZoneInfo(name), datetime(2026, 1, 1, tzinfo=UTC)
        local = datetime(2026, 1, 2)  # noqa: DTZ001 - what a clock shows
        before = now
        while local < datetime(2026, 12, 31):  # noqa: DTZ001 - as above
            found = moment_of(local.isoformat(timespec="minutes"), zone=zone, now=now)
            shown = found.at.astimezone(zone).replace(tzinfo=None)
            if "skipped" in found.note:
                assert timedelta(0) < shown - local <= timedelta(hours=1), (name, local)
            else:
                assert shown == local, (name, local)
                assert found.at > before, (name, local)
                before = found.at
            local += timedelta(minutes=30)


def timer(id: int, kind: ScheduleKind = "reminder", text: str = "tea", **fields: Any) -> Schedule:
    due = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    return replace(Schedule(id, "cli", "cli", "me", "me", "me", kind, text, due, due), **fields)


def test_the_list_is_read_in_the_persons_zone() -> None:
    """And what failed is there as well, with its reason: nothing is dropped in silence."""
    rows = [
        timer(3), timer(4, "message", "hello\n" + "x" * 300, target="Ann", reason="too many"),
        timer(1, "task", "weed", state="failed", reason="no room"),
    ]  # fmt: skip
    assert schedule_list(rows, VIENNA).splitlines() == [
        "Scheduled: 2 (times in Europe/Vienna)",
        "- sched-3 at 2026-03-29 03:30: reminder: tea",
        f"- sched-4 at 2026-03-29 03:30: message to Ann: hello {'x' * 194}... (put off: too many)",
        "Failed: 1",
        "- sched-1 at 2026-03-29 03:30: task: weed [no room]",
    ]
    assert schedule_list([], VIENNA) == "Nothing is scheduled."


@pytest.mark.parametrize(("name", "id"), [("sched-12", 12), (" SCHED-7 ", 7), ("12", 12), ("sched-", None), ("x", None),
                                          ("sched-1;drop", None), ("-3", None), ("9" * 19, None)])  # fmt: skip
def test_a_schedule_is_called_by_its_name(name: str, id: int | None) -> None:
    """Models write it in several ways."""
    assert schedule_id(name) == id
