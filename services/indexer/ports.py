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
    """The agent's folder."""

    def scan(self) -> Scan:
        """Read all files that are to be indexed. It takes the time it takes, so not on a loop that others wait for."""
        ...
