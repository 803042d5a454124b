"""Sub-agents: runs that other runs wait for. They are spawned by an act; this is what becomes of them."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Protocol
from uuid import UUID


class Children(Protocol):
    """What parents learn of their children."""

    async def collect(self, parent: UUID) -> str | None:
        """Write the ends of this run's children into the calls that asked for them.

        The conversation to look at, when the run waited for them and may go on. Asked again, nothing is changed.
        Raises ``TryLater``.
        """
        ...

    async def mind(self, *, limit: int) -> Sequence[str]:
        """The same for every run, and children whose parent has ended are asked to end; where somebody is to look.
        Raises ``TryLater``."""
        ...

    async def spent_beside(self, run: UUID, *, root: UUID) -> Decimal:
        """What was paid for ``root`` and all that was spawned for it, ``run`` itself left out. Raises ``TryLater``."""
        ...
