"""What a schedule becomes when it is due: the run, and what the agent reads."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from uuid import UUID

from shared.domain.run import Address, IdempotencyKey, NewRun
from shared.domain.schedule import Schedule, ScheduleKind, local_minute

SCOPE = "schedule"
KEY_LIVES = timedelta(days=30)
"""So long after it was accepted a schedule that nobody could mark as fired still is not fired again."""

TIER = "operational"
"""Of what no person has written at that moment, as in the original."""

LATE = timedelta(minutes=5)
"""What comes later than that says so."""

QUIET_FROM, QUIET_UNTIL = time(22), time(8)
QUIET = "Do not disturb from 22:00 to 08:00: be brief, and leave what can wait for the morning."

MARKS: dict[ScheduleKind, str] = {"reminder": "[Reminder] ", "task": "[Scheduled task] "}

FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=5)
MOST_TRIES = 300
"""About a day."""


@dataclass(frozen=True, slots=True)
class Manner:
    """The person's time zone, how long a run may take, how many may wait in a conversation, where ends are posted."""

    zone: tzinfo
    deadline: timedelta
    capacity: int
    webhook: str | None = None


def run_of(schedule: Schedule, run: UUID, *, now: datetime, manner: Manner) -> NewRun:
    """The run that it becomes; the same schedule at the same due time gives the same, whoever fires it."""
    return NewRun(
        id=run,
        address=Address(schedule.conversation, schedule.channel, schedule.principal, schedule.contact),
        text=text_of(schedule, now=now, zone=manner.zone),
        source="system",
        tier=TIER,
        sender=schedule.sender,
        idempotency=_key_of(schedule, schedule.conversation),
        deadline=manner.deadline,
        capacity=manner.capacity,
        webhook=manner.webhook,
    )


def outbound_of(schedule: Schedule, run: UUID, address: Address, *, now: datetime, manner: Manner) -> NewRun:
    """The run that a message to somebody becomes: its words stand in the line and in the session of whoever reads
    them."""
    text = schedule.text
    if now - schedule.due_at > LATE:
        text = f"{text}\n({_late(schedule, now, manner.zone)})"
    return NewRun(
        id=run,
        address=address,
        text=text,
        kind="outbound",
        source="system",
        sender=schedule.sender,
        idempotency=_key_of(schedule, address.conversation),
        deadline=manner.deadline,
        capacity=manner.capacity,
    )


def _key_of(schedule: Schedule, conversation: str) -> IdempotencyKey:
    """The same schedule at the same due time, whatever the clock says by then."""
    what = f"{schedule.kind}\n{conversation}\n{schedule.text}"
    return IdempotencyKey(
        SCOPE,
        f"{schedule.id}:{schedule.due_at.isoformat()}",
        hashlib.sha256(what.encode("utf-8", "surrogatepass")).digest(),
        KEY_LIVES,
    )


def text_of(schedule: Schedule, *, now: datetime, zone: tzinfo) -> str:
    """What the agent reads: what was asked for, what time it is for its person, and how late it comes."""
    here = now.astimezone(zone)
    lines = [f"{MARKS.get(schedule.kind, '')}{schedule.text}", f"[It is {here:%A} {local_minute(now, zone)}, {zone}.]"]
    if is_quiet(here.time()):
        lines.append(f"[{QUIET}]")
    if now - schedule.due_at > LATE:
        lines.append(f"[{_late(schedule, now, zone)}]")
    return "\n".join(lines)


def _late(schedule: Schedule, now: datetime, zone: tzinfo) -> str:
    due = local_minute(schedule.due_at, zone)
    return f"This was due at {due} and comes {duration(now - schedule.due_at)} late."


def is_quiet(clock: time) -> bool:
    """Whether people are not to be disturbed at that time of their day."""
    return clock >= QUIET_FROM or clock < QUIET_UNTIL


def duration(of: timedelta) -> str:
    """In words, to the minute."""
    minutes = int(of.total_seconds()) // 60
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = [f"{days} d"] * bool(days) + [f"{hours} h"] * bool(days or hours) + [f"{minutes} min"]
    return " ".join(units)


def pause(tries: int, *, asked: float) -> timedelta:
    """How long to wait after so many tries in vain, and never shorter than the ``asked`` seconds."""
    grown: timedelta = min(FIRST_PAUSE * (1 << min(tries, 16)), LONGEST_PAUSE)
    return max(grown, timedelta(seconds=asked))
