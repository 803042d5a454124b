"""Sub-agents: runs that other runs wait for. They are spawned by an act; this is what becomes of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, Protocol
from uuid import UUID

Leave = Literal["given", "wait", "none", "lost"]
"""Whether a call may go out: yes; it depends on what calls will have cost that are out; the money is spent; somebody
else has closed it."""


@dataclass(frozen=True, slots=True)
class Purse:
    """What a run learns before a call: ``spent_beside`` is what others have paid of the same money."""

    leave: Leave
    spent_beside: Decimal


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

    async def let_through(self, call: UUID, *, run: UUID, root: UUID, limit: Decimal) -> Purse:
        """Ask whether ``run`` may make a call that money was set aside for.

        ``root`` and all that was spawned for it spend the same: a call may go out while what they have paid, and the
        most that their calls may cost that are out, is below ``limit``. So they pass it by one call at most, all of
        them together. Asked again, it still may. Raises ``TryLater``.
        """
        ...
