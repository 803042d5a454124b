"""Files that an agent has sent with its reply, as whoever is shown the reply fetches them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

PIECE = 1_048_576
"""Bytes that are read at once: a file may be tens of megabytes, and many may fetch one."""


@dataclass(frozen=True, slots=True)
class ReplyFile:
    """One of them. ``is_kept``: its bytes are still there."""

    filename: str
    content_type: str
    size: int
    blob: UUID
    is_kept: bool = True


class ReplyFiles(Protocol):
    """Reads them, once their run has ended."""

    async def file(self, run: UUID, number: int) -> ReplyFile | None:
        """The one of that number, from 1, of the run's reply, or of the run's that it was merged into. ``None``: it has
        none such, or has not ended with one. Raises ``TryLater``."""
        ...

    def pieces(self, file: ReplyFile) -> AsyncIterator[bytes]:
        """Its bytes, a piece at a time. Raises ``TryLater``, also where they go meanwhile."""
        ...
