"""What the launcher shows of its children's logs: whatever is wrong, and whatever it can't judge."""

import json
from collections.abc import Mapping

_SHOWN = frozenset({"warning", "warn", "error", "critical", "fatal", "exception"})
_DETAILS_LEFT_OUT = frozenset({"level", "event", "timestamp", "logger", "service"})


def line_to_show(line: str) -> str | None:
    """Return the line as a person reads it, None when it is not for the terminal.

    Services log one JSON object a line with a ``level``. Any other text, such as a traceback, passes unchanged.
    """
    if not line.strip():
        return None
    record = _parse(line)
    if record is None or "level" not in record:
        return line
    level = str(record["level"]).lower()
    if level not in _SHOWN:
        return None
    words = [level, str(record.get("event", ""))]
    words += [f"{name}={value}" for name, value in record.items() if name not in _DETAILS_LEFT_OUT]
    return " ".join(word for word in words if word)


def _parse(line: str) -> Mapping[str, object] | None:
    if not line.startswith("{"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
