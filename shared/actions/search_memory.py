"""Look something up in memory: what the agent's own tool finds, and what is found over HTTP, is the same."""

from dataclasses import dataclass

from shared.domain.memory import Remembered
from shared.domain.memory_names import names_in
from shared.domain.person import Identity
from shared.ports.memory import Memory


@dataclass(frozen=True, slots=True)
class Most:
    """Of each kind at most so many."""

    facts: int
    episodes: int
    passages: int
    commitments: int


async def search_memory(memory: Memory, whose: Identity, query: str, most: Most) -> Remembered:
    """What is known to that person, and what stands in the workspace's files. Raises ``TryLater``."""
    return Remembered(
        await memory.facts(whose, query, names_in(query), limit=most.facts),
        await memory.episodes(whose, query, limit=most.episodes),
        await memory.passages(query, limit=most.passages),
        await memory.commitments(whose, limit=most.commitments),
    )
