"""What is to come later, as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from cli.rules.clean_text import one_line
from cli.rules.moments import local_time
from cli.rules.table import Column, Table

Schedule = Mapping[str, Any]

_COLUMNS = (
    Column("ID"),
    Column("Due"),
    Column("Kind"),
    Column("State"),
    Column("For"),
    Column("Text"),
    Column("Reason"),
)


def schedules_table(schedules: Sequence[Schedule]) -> Table:
    """In the gateway's order: the newest first."""
    return Table(_COLUMNS, [_row(each) for each in schedules], title=f"Scheduled ({len(schedules)})")


def _row(schedule: Schedule) -> tuple[str, ...]:
    return (
        one_line(schedule.get("id", "?"), 24),
        local_time(schedule.get("due_at")),
        one_line(schedule.get("kind", "?"), 12),
        one_line(schedule.get("state", "?"), 12),
        one_line(schedule.get("target") or schedule.get("contact") or "?", 24),
        one_line(schedule.get("text", ""), 60),
        one_line(schedule.get("reason") or "", 60),
    )
