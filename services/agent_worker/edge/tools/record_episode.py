"""Keeping what a conversation was about."""

from collections.abc import Mapping
from typing import Any

from services.agent_worker.edge.tools.memory_arguments import whose
from services.agent_worker.ports import ToolFailed, ToolUse
from shared.domain.effect import ToolSpec
from shared.domain.person import People

SHORTEST_SUMMARY = 20
"""In characters: what says less will never be looked for."""

LONGEST_SUMMARY = 4000
LONGEST_ITEM = 300
MOST_ITEMS = 20
LONGEST_TONE = 100

_SPEC = ToolSpec(
    name="record_episode",
    description=(
        "Keep what this conversation was about, so that it can be found later. For conversations that matter; small "
        "talk is refused."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "summary": {"type": "string", "description": "What happened, in one to five sentences."},
            "topics": {"type": "array", "items": {"type": "string"}, "description": "What was talked about."},
            "decisions": {"type": "array", "items": {"type": "string"}, "description": "What was decided."},
            "emotional_tone": {"type": "string", "default": "neutral", "description": "How it felt, in a word or two."},
        },
        "required": ["summary"],
    },
    effect="local",
)


class RecordEpisodeTool:
    """Writes episodes of the person that the run is for."""

    def __init__(self, people: People) -> None:
        self._people = people

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Keep it. Raises ``ToolFailed`` for what is trivial or too long."""
        summary = " ".join(arguments["summary"].split())
        if len(summary) < SHORTEST_SUMMARY:
            raise ToolFailed(
                f"this is trivial: a summary of less than {SHORTEST_SUMMARY} characters is not worth keeping"
            )
        if len(summary) > LONGEST_SUMMARY:
            raise ToolFailed(f"'summary' must have at most {LONGEST_SUMMARY} characters, not {len(summary)}")
        tone = " ".join(arguments.get("emotional_tone", "").split()) or "neutral"
        if len(tone) > LONGEST_TONE:
            raise ToolFailed(f"'emotional_tone' must have at most {LONGEST_TONE} characters, not {len(tone)}")
        episode = {
            "summary": summary,
            "topics": _items("topics", arguments),
            "decisions": _items("decisions", arguments),
            "emotional_tone": tone,
        }
        return await use.act("record_episode", {**whose(self._people, use), **episode})


def _items(argument: str, arguments: Mapping[str, Any]) -> list[str]:
    items = [item for each in arguments.get(argument, ()) if (item := " ".join(each.split()))]
    if len(items) > MOST_ITEMS:
        raise ToolFailed(f"'{argument}' must have at most {MOST_ITEMS} items, not {len(items)}")
    if any(len(item) > LONGEST_ITEM for item in items):
        raise ToolFailed(f"each of '{argument}' must have at most {LONGEST_ITEM} characters")
    return items
