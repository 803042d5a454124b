"""Points in time as the gateway tells them (seconds since 1970, or ISO 8601) and as people read them."""

import time
from datetime import UTC, datetime


def seconds_of(value: object) -> float | None:
    """Seconds since 1970, ``None`` for what is no point in time."""
    text = str(value or "").strip()
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def local_time(value: object) -> str:
    """The moment on this machine's clock, ``2026-03-09 14:05``; ``?`` when it is unknown."""
    seconds = seconds_of(value)
    try:
        return "?" if seconds is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "?"
