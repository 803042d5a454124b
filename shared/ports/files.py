"""Which workspace files are known, as they were when they were last read."""

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


class Files(Protocol):
    """The table of files; one row for each. All raise ``TryLater``."""

    async def hashes(self) -> Mapping[str, str]:
        """Path to hash of every known file."""
        ...

    async def put(self, files: Sequence[KnownFile]) -> None:
        """Add these, or replace what was known of them."""
        ...

    async def remove(self, paths: Collection[str]) -> None:
        """Forget these."""
        ...
