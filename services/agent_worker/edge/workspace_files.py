"""Reads the workspace's personality and memory files, again only when they have changed."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from services.agent_worker.rules.prompt import ContextFiles

log = structlog.get_logger(__name__)

LONGEST_FILE = 1_000_000
"""Characters; what is longer is cut, for it could never be sent to a model."""


@dataclass(frozen=True, slots=True)
class TierNames:
    """Which files a context tier shows, by name."""

    stable: Sequence[str] = ()
    semi_stable: Sequence[str] = ()


class WorkspaceFiles:
    """``Workspace`` of the desk. An unknown tier has no files, as in the original."""

    def __init__(self, root: Path, tiers: Mapping[str, TierNames]) -> None:
        self._root = root
        self._tiers = tiers
        self._read: dict[str, tuple[tuple[int, int], str]] = {}

    async def context_files(self, tier: str) -> ContextFiles:
        """See ``Workspace.context_files``."""
        return await asyncio.to_thread(self._context_files, self._tiers.get(tier, TierNames()))

    def _context_files(self, names: TierNames) -> ContextFiles:
        return ContextFiles(self._all(names.stable), self._all(names.semi_stable))

    def _all(self, names: Sequence[str]) -> list[tuple[str, str]]:
        return [(name, text) for name in names if (text := self._text(name)) is not None]

    def _text(self, name: str) -> str | None:
        path = self._root / name
        try:
            state = path.stat()
            version = (state.st_mtime_ns, state.st_size)
            held = self._read.get(name)
            if held is None or held[0] != version:
                held = version, path.read_text("utf-8", "replace")[:LONGEST_FILE]
                self._read[name] = held
        except FileNotFoundError:
            return None
        except OSError as fault:
            log.warning("context_file_unreadable", file=name, error=type(fault).__name__)
            return None
        return held[1]
