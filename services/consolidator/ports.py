"""What the consolidator needs of the store and nobody else does."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Figures(Protocol):
    """How much there is of everything. Both raise ``TryLater``."""

    async def counts(self) -> Mapping[str, Any]:
        """Rows: ``sessions`` (open, closed), ``messages``, ``runs`` by state, ``costs``, ``files``."""
        ...

    async def analyze(self) -> Sequence[str]:
        """Refresh the planner's statistics of the busy tables; their names."""
        ...
