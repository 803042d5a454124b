"""Handing a task to a sub-agent: a run of its own, which any worker takes."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from services.agent_worker.ports import ToolFailed, ToolUse
from services.agent_worker.rules.spawning import (
    DEEPEST,
    MOST_A_ROUND,
    MOST_OPEN,
    SESSIONS_SPAWN,
    SpawnRefused,
    SpawnTerms,
    child_model,
    child_seconds,
    child_tools,
    child_turns,
)
from shared.domain.effect import ToolSpec
from shared.ids import new_id

_SPEC = ToolSpec(
    name=SESSIONS_SPAWN,
    description=(
        "Give a task to a sub-agent and wait for its answer. It starts with an empty history and knows nothing but the "
        "prompt, so say everything it needs. Several calls in one answer work side by side."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "description": "The whole task, with all that must be known for it."},
            "tools": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Names of the tools it may use. Default: all that sub-agents may use.",
            },
            "model": {"type": "string", "description": "Name of a configured model to use."},
            "timeout": {"type": "number", "description": "Seconds it may take."},
            "max_turns": {"type": "integer", "description": "How often it may ask its model."},
        },
        "required": ["prompt"],
    },
    effect="local",
    opens=True,
)


class SessionsSpawnTool:
    """Spawns children. ``offered`` are the names of all tools there are now, ``roles`` those of the models.

    What a sub-agent answers has at most ``output_limit`` characters in its parent's context.
    """

    def __init__(
        self, terms: SpawnTerms, *, roles: Collection[str], offered: Callable[[], Collection[str]], output_limit: int
    ) -> None:
        self._terms = terms
        self._roles = roles
        self._offered = offered
        self._output_limit = output_limit

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """The child is there; what it answers comes as the result of this call when it has ended."""
        if not arguments["prompt"].strip():
            raise ToolFailed("prompt is empty")
        try:
            details = self._details(arguments, use)
        except SpawnRefused as refusal:
            raise ToolFailed(str(refusal)) from refusal
        return await use.act("spawn", details)

    def _details(self, arguments: Mapping[str, Any], use: ToolUse) -> Mapping[str, Any]:
        terms = self._terms
        return {
            "id": new_id(),
            "prompt": arguments["prompt"],
            "tools": child_tools(arguments.get("tools"), offered=self._offered(), scope=use.scope, terms=terms),
            "model": child_model(arguments.get("model"), roles=self._roles, terms=terms),
            "max_turns": child_turns(arguments.get("max_turns"), terms=terms),
            "seconds": child_seconds(arguments.get("timeout"), terms=terms),
            "deepest": DEEPEST,
            "most_a_round": MOST_A_ROUND,
            "most_open": MOST_OPEN,
            "most_characters": self._output_limit,
        }
