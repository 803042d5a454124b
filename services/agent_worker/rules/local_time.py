"""What a model means by a local time, and whether it lies where a schedule may."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from shared.domain.schedule import local_minute
from shared.errors import BadInput

SOONEST = timedelta(minutes=1)
LATEST = timedelta(days=366)

FORM = "a local date and time such as 2026-03-01T08:30"
_FORM = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time, and what is to be said of how it was found; mostly nothing."""

    at: datetime
    note: str = ""


def moment_of(when: str, *, zone: tzinfo, now: datetime) -> Moment:
    """The moment that a clock in ``zone`` shows as ``when``. Raises ``BadInput``.

    An hour that is skipped when clocks go forward is moved forward by what they skip, as calendars do. One that comes
    twice when they go back means the first time that can still be had. A ``when`` that says its own offset means that.
    """
    given = _read(when)
    if given.tzinfo is not None:
        at, note = given.astimezone(UTC), ""
    else:
        at, note = _on_clock(given, zone, now)
    if at - now < SOONEST:
        raise BadInput(f"when must be at least 1 minute ahead; it is {local_minute(now, zone)} now ({zone})")
    if at - now > LATEST:
        raise BadInput(f"when must be at most 366 days ahead; it is {local_minute(now, zone)} now ({zone})")
    return Moment(at, note)


def _read(when: str) -> datetime:
    text = when.strip()
    try:
        if not _FORM.fullmatch(text):
            raise ValueError(text)
        given = datetime.fromisoformat(text)
        if not 2 <= given.year <= 9998:  # beyond that no zone can be reckoned with
            raise ValueError(text)
    except ValueError as fault:
        raise BadInput(f"when must be {FORM}, and a day of the calendar") from fault
    return given


def _on_clock(given: datetime, zone: tzinfo, now: datetime) -> tuple[datetime, str]:
    first, second = (given.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first == second:
        return first, ""
    if first > second:  # in a gap ``fold`` 0 reckons with the time before it, and so comes out behind it
        return first, f"{given:%H:%M} is skipped that day, as clocks go forward"
    if first - now >= SOONEST:
        return first, f"{given:%H:%M} comes twice that day, as clocks go back: the first is meant"
    return second, f"{given:%H:%M} comes twice that day, as clocks go back: the second is meant"
