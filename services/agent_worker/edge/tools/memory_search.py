"""Looking something up in long-term memory."""

from collections.abc import Mapping
from typing import Any

from services.agent_worker.edge.tools.memory_arguments import identity_of
from services.agent_worker.ports import ToolFailed, ToolUse
from services.agent_worker.rules.recall import (
    NOTHING_FOUND,
    RecallManner,
    commitment_block,
    episode_block,
    fact_block,
    passage_block,
    recall_text,
)
from shared.actions.search_memory import Most, search_memory
from shared.domain.effect import ToolSpec
from shared.domain.person import People
from shared.ports.memory import Memory

MOST = 100
MOST_COMMITMENTS = 20
LONGEST_QUERY = 2000


class MemorySearchTool:
    """Finds what is known to the person that the run is for, and what stands in the workspace's files."""

    def __init__(self, memory: Memory, people: People, *, manner: RecallManner, default_top_k: int) -> None:
        self._memory = memory
        self._people = people
        self._manner = manner
        self._spec = _spec(min(default_top_k, MOST))
        self._default = default_top_k

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return self._spec

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """What was found, or a hint. ``top_k`` bounds the passages of files; it is at least 1 and at most 100."""
        query = arguments["query"][:LONGEST_QUERY].strip()
        if not query:
            raise ToolFailed("'query' must not be empty")
        top_k = max(1, min(arguments.get("top_k", self._default), MOST))
        manner = self._manner
        most = Most(manner.facts, manner.episodes, top_k, MOST_COMMITMENTS)
        found = await search_memory(self._memory, identity_of(self._people, use), query, most)
        blocks = [
            fact_block(found.facts, manner),
            episode_block(found.episodes, manner),
            passage_block(found.passages, query, manner),
            commitment_block(found.commitments, manner),
        ]
        return recall_text(blocks, manner.budget) or NOTHING_FOUND


def _spec(default: int) -> ToolSpec:
    return ToolSpec(
        name="memory_search",
        description=(
            "Search long-term memory: facts, earlier conversations, open commitments, and the notes in the workspace's "
            "indexed files (MEMORY.md, memory/*.md)."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Names and words to look for."},
                "top_k": {
                    "type": "integer",
                    "default": default,
                    "description": f"How many passages of files at most, 1 to {MOST}.",
                },
            },
            "required": ["query"],
        },
        effect="read",
    )
