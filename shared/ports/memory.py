"""What the agent remembers, to be found. One person's facts, episodes and commitments are for nobody else."""

from collections.abc import Collection, Sequence
from typing import Protocol

from shared.domain.memory import Commitment, Episode, Fact, Passage
from shared.domain.person import Identity


class Memory(Protocol):
    """Finds. No text that is asked for is ever an error; one without a word finds nothing. All raise ``TryLater``."""

    async def facts(self, whose: Identity, query: str, names: Collection[str], *, limit: int) -> Sequence[Fact]:
        """Facts that hold: those of the entities in ``names``, which may be aliases, then those that have a word of the
        query; the surer ones first. They count as read."""
        ...

    async def episodes(self, whose: Identity, query: str, *, limit: int) -> Sequence[Episode]:
        """Those that have a word of the query, the newest first."""
        ...

    async def commitments(self, whose: Identity, *, limit: int) -> Sequence[Commitment]:
        """Those that are open, in the order of their deadlines; those without one come last."""
        ...

    async def passages(self, query: str, *, limit: int) -> Sequence[Passage]:
        """Pieces of the workspace's files that have a word of the query, the best first."""
        ...

    async def lines(self, path: str, first: int, last: int, *, limit: int) -> Sequence[Passage]:
        """The pieces of one file that reach into these lines, in their order; neighbours may have lines in common."""
        ...
