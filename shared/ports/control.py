"""Commands to every worker: ``lucyd:control``. What they say stands in Postgres; the stream only makes it quick."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol
from uuid import UUID

CommandType = Literal["cancel"]


@dataclass(frozen=True, slots=True)
class Command:
    """``cancel``: the run is to end; who has its conversation in hand sees to it, with ``reason`` for its person."""

    type: CommandType
    run: UUID
    conversation: str
    reason: str


class Control(Protocol):
    """Tells all workers, and hears what is told."""

    async def tell(self, command: Command) -> None:
        """Add a command. Raises ``TryLater``; the sweep of the workers finds the same in Postgres."""
        ...

    def hear(self) -> AsyncIterator[Command]:
        """Commands told from now on, over reconnects, until closed. Some may be lost."""
        ...
