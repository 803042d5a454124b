"""Giving oneself a task for a later time."""

from collections.abc import Mapping
from typing import Any

from services.agent_worker.edge.tools.at_local_time import WHEN, AtLocalTime, text_to_keep
from services.agent_worker.ports import ToolUse
from shared.domain.effect import ToolSpec

_SPEC = ToolSpec(
    name="schedule_self_task",
    description=(
        "Give yourself a task for later: at that time you are told [Scheduled task] with this instruction, in this "
        "conversation, and carry it out. It survives restarts."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "instruction": {"type": "string", "description": "What to do then, so that it is understood alone."},
            "when": WHEN,
        },
        "required": ["instruction", "when"],
    },
    effect="local",
)


class ScheduleSelfTaskTool:
    """Schedules tasks of the agent's own."""

    def __init__(self, later: AtLocalTime) -> None:
        self._later = later

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Keep it. Raises ``ToolFailed`` for a time that can't be, and when too much is scheduled."""
        text = text_to_keep("instruction", arguments["instruction"])
        return await self._later.schedule("task", text, arguments["when"], use)
