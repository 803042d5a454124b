"""Ending a commitment."""

from collections.abc import Mapping
from typing import Any

from services.agent_worker.edge.tools.memory_arguments import whose
from services.agent_worker.ports import ToolUse
from shared.domain.effect import ToolSpec
from shared.domain.person import People

GREATEST_ID = 2**63 - 1

_SPEC = ToolSpec(
    name="commitment_update",
    description="End an open commitment. Its number stands under [Open commitments] of memory_search, for example #7.",
    input_schema={
        "type": "object",
        "properties": {
            "commitment_id": {"type": "integer", "description": "The number of the commitment."},
            "status": {"type": "string", "enum": ["done", "expired", "cancelled"], "description": "How it ends."},
        },
        "required": ["commitment_id", "status"],
    },
    effect="local",
)


class CommitmentUpdateTool:
    """Ends commitments of the person that the run is for."""

    def __init__(self, people: People) -> None:
        self._people = people

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """End it; one that is not there, or not open, or somebody else's, is told alike."""
        number = max(0, min(arguments["commitment_id"], GREATEST_ID))
        given = {"commitment_id": number, "status": arguments["status"]}
        return await use.act("commitment_update", {**whose(self._people, use), **given})
