"""Showing what is scheduled."""

from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from services.agent_worker.edge.tools.memory_arguments import identity_of
from services.agent_worker.ports import ToolUse
from services.agent_worker.rules.schedule_list import schedule_list
from shared.domain.effect import ToolSpec
from shared.domain.person import People
from shared.ports.schedules import Schedules

_SPEC = ToolSpec(
    name="list_scheduled",
    description="List what is scheduled: messages, reminders and tasks with their ids, and what could not be done.",
    input_schema={"type": "object", "properties": {}},
    effect="read",
)


class ListScheduledTool:
    """What is pending of the person that the run is for."""

    def __init__(self, schedules: Schedules, people: People, zone: tzinfo) -> None:
        self._schedules = schedules
        self._people = people
        self._zone = zone

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """The list, the next first."""
        return schedule_list(await self._schedules.of_person(identity_of(self._people, use)), self._zone)
