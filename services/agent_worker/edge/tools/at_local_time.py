"""What the tools have in common that schedule something for a local time."""

from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from services.agent_worker.edge.tools.memory_arguments import whose
from services.agent_worker.ports import ToolFailed, ToolUse
from services.agent_worker.rules.local_time import FORM, moment_of
from shared.domain.person import People
from shared.domain.schedule import ScheduleKind, local_minute
from shared.errors import BadInput
from shared.ports.clock import Clock

LONGEST_TEXT = 4000
"""Characters: it is read in one go, as a message of a chat."""

WHEN: Mapping[str, Any] = {
    "type": "string",
    "description": f"When, as {FORM}, in the person's time zone; 1 minute to 366 days ahead.",
}


def text_to_keep(name: str, text: str) -> str:
    """The text, if it can be kept for later. Raises ``ToolFailed``."""
    if not text.strip():
        raise ToolFailed(f"{name} is empty")
    if len(text) > LONGEST_TEXT:
        raise ToolFailed(f"{name} has more than {LONGEST_TEXT} characters")
    return text


class AtLocalTime:
    """Schedules for a time of the person's own clock. ``most``: how many of a principal may be pending."""

    def __init__(self, clock: Clock, people: People, zone: tzinfo, *, most: int) -> None:
        self._clock = clock
        self._people = people
        self._zone = zone
        self._most = most

    async def schedule(self, kind: ScheduleKind, text: str, when: str, use: ToolUse) -> str:
        """The name it goes by, and when that is. Raises ``ToolFailed``."""
        try:
            moment = moment_of(when, zone=self._zone, now=self._clock.now())
        except BadInput as fault:
            raise ToolFailed(str(fault)) from fault
        note = f" ({moment.note})" if moment.note else ""
        told = f"{kind} at {local_minute(moment.at, self._zone)} {self._zone}{note}"
        arguments = {"kind": kind, "text": text, "due_at": moment.at.isoformat(), "most": self._most, "told": told}
        return await use.act("schedule", {**whose(self._people, use), **arguments})
