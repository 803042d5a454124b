"""Sending a message to somebody at a later time."""

from collections.abc import Mapping
from typing import Any

from services.agent_worker.edge.tools.at_local_time import text_to_keep
from services.agent_worker.edge.tools.memory_arguments import whose
from services.agent_worker.edge.tools.receivers import Receivers
from services.agent_worker.ports import ToolFailed, ToolUse
from shared.domain.contacts import Contacts
from shared.domain.effect import ToolSpec
from shared.domain.person import People

_SPEC = ToolSpec(
    name="schedule_message",
    description=(
        "Send a message to one of the known contacts after a while, word for word and without being asked again. It "
        "survives restarts."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "target": {"type": "string", "description": "The contact's name."},
            "text": {"type": "string", "description": "What to send."},
            "delay_seconds": {"type": "integer", "description": "How many seconds from now."},
        },
        "required": ["target", "text", "delay_seconds"],
    },
    effect="local",
)


class ScheduleMessageTool:
    """Schedules messages. ``most`` is how many of a principal may be pending, ``longest`` the longest delay in
    seconds."""

    def __init__(self, contacts: Contacts, people: People, *, most: int, longest: int) -> None:
        self._receivers = Receivers(contacts)
        self._people = people
        self._most = most
        self._longest = longest

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Keep it. Raises ``ToolFailed`` for nobody's name, a delay that can't be, and when too much is scheduled."""
        receiver = self._receivers.contact(arguments["target"], use)
        text, delay = text_to_keep("text", arguments["text"]), arguments["delay_seconds"]
        if not 1 <= delay <= self._longest:
            raise ToolFailed(f"delay_seconds must be from 1 to {self._longest}")
        return await use.act(
            "schedule",
            {
                **whose(self._people, use),
                "kind": "message",
                "text": text,
                "target": receiver.name,
                "place": receiver.place,
                "delay": delay,
                "most": self._most,
                "told": f"message to {receiver.name} in {delay} seconds",
            },
        )
