"""Keys that have moved: what an older file says at the old place holds at the new one, unless that is given too."""

from collections.abc import Iterator
from typing import Any

from shared.runtime.configuration.reading import given

_MOVED = (
    (("channel", "debounce_ms"), ("behavior", "debounce_ms")),
    (("memory", "recall", "max_episodes"), ("memory", "recall", "max_episodes_at_start")),
    (("memory", "maintenance", "stale_days"), ("memory", "maintenance", "stale_threshold_days")),
)


def carry_over(raw: dict[str, Any]) -> dict[str, str]:
    """Copy moved keys to their new places, in ``raw`` itself; returns new path -> path that the operator wrote."""
    spoken = {}
    for old, new in (*_MOVED, *_telegram(raw)):
        if given(raw, *old) and not given(raw, *new):
            table = _table(raw, new[:-1])
            if table is not None:
                table[new[-1]] = _at(raw, old)
                spoken[".".join(new)] = ".".join(old)
    return spoken


def _telegram(raw: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    table = _at(raw, ("channel", "telegram")) if given(raw, "channel", "telegram") else None
    for key in table if isinstance(table, dict) else ():
        yield ("channel", "telegram", key), ("telegram", key)


def _at(raw: dict[str, Any], path: tuple[str, ...]) -> Any:
    here: Any = raw
    for key in path:
        here = here[key]
    return here


def _table(raw: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any] | None:
    here = raw
    for key in path:
        inner = here.setdefault(key, {})
        if not isinstance(inner, dict):
            return None
        here = inner
    return here
