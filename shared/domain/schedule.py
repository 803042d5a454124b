"""What is to happen at a later time: a message to somebody, a reminder, a task of the agent's own."""

import re
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Literal
from uuid import UUID

ScheduleKind = Literal["message", "reminder", "task"]
ScheduleState = Literal["pending", "fired", "cancelled", "failed"]

NAME = "sched-[0-9]{1,18}"
"""What one is called, as a pattern."""

_NAME = re.compile(r"\s*(?:sched-)?([0-9]{1,18})\s*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Schedule:
    """One timer. ``target`` and ``place``: of a message, whom it is for and the key of that person's conversation.

    ``run`` is what it became; of a pending one, the run that is about to be made of it. ``tries`` counts how often it
    was due and could not be accepted, ``reason`` says why.
    """

    id: int
    conversation: str
    channel: str
    principal: str
    sender: str
    contact: str
    kind: ScheduleKind
    text: str
    due_at: datetime
    created_at: datetime
    state: ScheduleState = "pending"
    target: str | None = None
    place: str | None = None
    run: UUID | None = None
    tries: int = 0
    reason: str | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        return schedule_name(self.id)


def schedule_name(id: int) -> str:
    """What people call it."""
    return f"sched-{id}"


def schedule_id(name: str) -> int | None:
    """Which one is meant by ``sched-12``, or ``12``; ``None`` for what is no name of one."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def local_minute(moment: datetime, zone: tzinfo) -> str:
    """The moment as a clock of that zone shows it, ``2026-03-09 14:05``."""
    return moment.astimezone(zone).strftime("%Y-%m-%d %H:%M")
