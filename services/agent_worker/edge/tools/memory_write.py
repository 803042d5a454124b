"""Keeping a fact."""

from collections.abc import Mapping
from typing import Any

from services.agent_worker.edge.tools.memory_arguments import ATTRIBUTE, ENTITY, name_of, whose
from services.agent_worker.ports import ToolFailed, ToolUse
from shared.domain.effect import ToolSpec
from shared.domain.memory_names import LONGEST_VALUE
from shared.domain.person import People

_SPEC = ToolSpec(
    name="memory_write",
    description=(
        "Store a fact about somebody or something in long-term memory, as entity, attribute and value. It replaces the "
        "value that this attribute had. Use it for what you want to know in later conversations."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "entity": ENTITY,
            "attribute": ATTRIBUTE,
            "value": {"type": "string", "description": f"The fact, in at most {LONGEST_VALUE} characters."},
        },
        "required": ["entity", "attribute", "value"],
    },
    effect="local",
)


class MemoryWriteTool:
    """Writes facts of the person that the run is for."""

    def __init__(self, people: People) -> None:
        self._people = people

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Store it. Raises ``ToolFailed`` for what is empty or too long, and when there are too many facts."""
        value = arguments["value"].strip()
        if not value:
            raise ToolFailed("'value' must not be empty")
        if len(value) > LONGEST_VALUE:
            raise ToolFailed(f"'value' must have at most {LONGEST_VALUE} characters, not {len(value)}")
        fact = {"entity": name_of("entity", arguments), "attribute": name_of("attribute", arguments), "value": value}
        return await use.act("memory_write", {**whose(self._people, use), **fact})
