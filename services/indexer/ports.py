"""What the indexer needs of the world and nobody else does."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from shared.ports.files import KnownFile


@dataclass(frozen=True, slots=True)
class Scan:
    """What one look at the workspace found, by path: files, those that can't be read, and those that are too large."""

    files: Mapping[str, KnownFile]
    unreadable: Collection[str]
    too_large: Collection[str]


class Workspace(Protocol):
    """The agent's folder. Both take the time they take, so not on a loop that others wait for."""

    def scan(self) -> Scan:
        """Look at all files that are to be indexed."""
        ...

    def read(self, path: str) -> tuple[KnownFile, str] | None:
        """One of them as it is now, and its text; ``None`` when it can no longer be read, or has grown too large."""
        ...
