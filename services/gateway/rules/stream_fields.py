"""What the original's clients look for in an event of a stream, beside what we tell."""

from collections.abc import Mapping
from typing import Any

from shared.messages.run_events import RunEvent

_REASONS = {"done": "end_turn", "merged": "merged", "cancelled": "cancelled", "failed": "error"}


def data_of(event: RunEvent) -> Mapping[str, Any]:
    """The data of an event with the original's fields: ``text``, ``thinking``, ``status``, and at the end ``done`` and
    ``stop_reason``.

    Its clients go by these alone, and join whatever is a ``text``: only the answer may be one.
    """
    if event.type != "delta" and "text" in event.data:
        name = "thinking" if event.type == "thinking" else "status"
        return {name if key == "text" else key: value for key, value in event.data.items()}
    if event.terminal:
        return {**event.data, "done": True, "stop_reason": _REASONS[event.type]}
    return event.data
