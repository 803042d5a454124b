"""Taking back what was scheduled."""

from collections.abc import Mapping
from typing import Any

from services.agent_worker.edge.tools.memory_arguments import whose
from services.agent_worker.ports import ToolFailed, ToolUse
from shared.domain.effect import ToolSpec
from shared.domain.person import People
from shared.domain.schedule import schedule_id

_SPEC = ToolSpec(
    name="cancel_scheduled",
    description="Cancel a scheduled message, reminder or task by its id, as list_scheduled shows it.",
    input_schema={
        "type": "object",
        "properties": {"job_id": {"type": "string", "description": "Such as sched-12."}},
        "required": ["job_id"],
    },
    effect="local",
)


class CancelScheduledTool:
    """Cancels what belongs to the person that the run is for."""

    def __init__(self, people: People) -> None:
        self._people = people

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Cancel it. Raises ``ToolFailed`` where there is nothing of that id, and where it is too late."""
        id = schedule_id(arguments["job_id"])
        if id is None:
            raise ToolFailed("job_id is no id of a schedule, such as sched-12; list_scheduled shows them")
        return await use.act("cancel_scheduled", {**whose(self._people, use), "id": id})
