"""Reminding the person at a later time."""

from collections.abc import Mapping
from typing import Any

from services.agent_worker.edge.tools.at_local_time import WHEN, AtLocalTime, text_to_keep
from services.agent_worker.ports import ToolUse
from shared.domain.effect import ToolSpec

_SPEC = ToolSpec(
    name="remind_user",
    description=(
        "Remind the person of this conversation later: at that time you are told [Reminder] with this message, here, "
        "and pass it on. It survives restarts."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "What to remind of, so that it is understood alone."},
            "when": WHEN,
        },
        "required": ["message", "when"],
    },
    effect="local",
)


class RemindUserTool:
    """Schedules reminders."""

    def __init__(self, later: AtLocalTime) -> None:
        self._later = later

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Keep it. Raises ``ToolFailed`` for a time that can't be, and when too much is scheduled."""
        text = text_to_keep("message", arguments["message"])
        return await self._later.schedule("reminder", text, arguments["when"], use)
