"""Letting a fact no longer hold."""

from collections.abc import Mapping
from typing import Any

from services.agent_worker.edge.tools.memory_arguments import ATTRIBUTE, ENTITY, name_of, whose
from services.agent_worker.ports import ToolUse
from shared.domain.effect import ToolSpec
from shared.domain.person import People

_SPEC = ToolSpec(
    name="memory_forget",
    description="Mark a fact of long-term memory as no longer true. It will not be found again.",
    input_schema={
        "type": "object",
        "properties": {"entity": ENTITY, "attribute": ATTRIBUTE},
        "required": ["entity", "attribute"],
    },
    effect="local",
)


class MemoryForgetTool:
    """Forgets facts of the person that the run is for."""

    def __init__(self, people: People) -> None:
        self._people = people

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Forget it; a fact that is not there is no fault. Raises ``ToolFailed`` for names that are none."""
        names = {"entity": name_of("entity", arguments), "attribute": name_of("attribute", arguments)}
        return await use.act("memory_forget", {**whose(self._people, use), **names})
