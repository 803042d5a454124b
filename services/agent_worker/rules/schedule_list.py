"""What is scheduled, in lines that a model reads."""

from collections.abc import Sequence
from datetime import tzinfo

from shared.domain.schedule import Schedule, local_minute

SHOWN = 200
"""Characters of each text."""


def schedule_list(schedules: Sequence[Schedule], zone: tzinfo) -> str:
    """Those that are pending, and behind them those that failed, each on a line."""
    pending = [each for each in schedules if each.state == "pending"]
    failed = [each for each in schedules if each.state == "failed"]
    lines = [f"Scheduled: {len(pending)} (times in {zone})" if pending else "Nothing is scheduled."]
    lines += [_line(each, zone) for each in pending]
    if failed:
        lines.append(f"Failed: {len(failed)}")
        lines += [f"{_line(each, zone)} [{each.reason}]" for each in failed]
    return "\n".join(lines)


def _line(schedule: Schedule, zone: tzinfo) -> str:
    what = f"{schedule.kind} to {schedule.target}" if schedule.target else schedule.kind
    text = " ".join(schedule.text.split())
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    late = f" (put off: {schedule.reason})" if schedule.state == "pending" and schedule.reason else ""
    return f"- {schedule.name} at {local_minute(schedule.due_at, zone)}: {what}: {shown}{late}"
