"""What conversations hold that was not yet drawn into memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a session was consolidated: its compactions and its messages at that time."""

    compactions: int
    messages: int


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A session's messages as a model reads them: after a compaction the summary is the first of them."""

    session: UUID
    compactions: int
    messages: int
    mark: Watermark | None


class Backlog(Protocol):
    """Reads; nothing here changes anything."""

    async def lines(self, *, at_least: int, limit: int) -> Sequence[SessionLine]:
        """Sessions, open or closed, of ``at_least`` so many messages, the one used last first; not those of sub-agents.
        Raises ``TryLater``."""
        ...
