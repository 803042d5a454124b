"""Which workspace files are indexed, as they were when they were last read, and the pieces they are found by."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KnownFile:
    """``path`` is relative to the workspace, with ``/``; ``hash`` is the SHA-256 in hex, ``size`` is bytes."""

    path: str
    hash: str
    size: int
    mtime: datetime


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole lines of a file, from ``start_line`` to ``end_line``, both counted from 1 and both in it."""

    id: str
    start_line: int
    end_line: int
    text: str


class Files(Protocol):
    """The tables of files and of their chunks. All raise ``TryLater``. ``chunking`` names how chunks were made."""

    async def hashes(self, *, chunking: str) -> Mapping[str, str]:
        """Path to hash of every known file; the hash is empty where its chunks were made in another way."""
        ...

    async def put(self, file: KnownFile, chunks: Sequence[Chunk], *, chunking: str) -> None:
        """Add it, or put it in place of what was known of it: file and chunks at once."""
        ...

    async def remove(self, paths: Collection[str]) -> None:
        """Forget these, and their chunks."""
        ...
