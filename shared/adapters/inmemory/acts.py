"""Acts without a database, under the same claims; see ``0013_acts.sql``."""

from collections.abc import Callable, Mapping
from typing import Any

from shared.adapters.inmemory.tables import Tables, as_json
from shared.errors import LostClaim
from shared.ports.acts import Act, ActAnswer

Doing = Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]]
"""What an act does, of its context and its arguments; answers as the functions in Postgres do."""


class InMemoryActs:
    """``Acts`` of the ports. ``doing`` are the acts there are, by name."""

    def __init__(self, tables: Tables, doing: Mapping[str, Doing]) -> None:
        self._tables = tables
        self._doing = doing

    async def act(self, act: Act) -> ActAnswer:
        """See ``Acts.act``."""
        tables = self._tables
        conversation, run = tables.conversations[act.conversation], tables.runs[act.run]
        if conversation.epoch != act.epoch or conversation.owner != act.worker or run.state != "running":
            raise LostClaim(act.conversation)
        effect = tables.effects[act.run, act.step, act.call_index]
        if effect.state == "intended" and effect.result is None:
            key = f"{act.run}:{act.step}:{act.call_index}"
            context = {"key": key, "run": str(act.run), "conversation": act.conversation}
            said = as_json(self._doing[act.name](context, act.arguments))
            content = f"Error: {said['error']}" if "error" in said else said.get("text", "")
            effect.state = "intended" if "open" in said else "done"
            effect.result = {"tool_use_id": effect.call_id, "content": content, "said": said}
            if "error" in said:
                effect.result["is_error"] = True
        said = (effect.result or {}).get("said") or {}
        return ActAnswer(
            said.get("text", ""),
            said.get("error"),
            tuple(said.get("wake", ())),
            tuple(said.get("nudge", ())),
            open="open" in said,
        )
