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
    """``Workspace`` of the desk. An unknown tier has no files, as in the original.

    A look at the folder is made in a thread, for it may lie on a network. One look is for everybody who asked before
    it began: threads that take turns with a busy event loop cost more than the look itself.
    """

    def __init__(self, root: Path, tiers: Mapping[str, TierNames]) -> None:
        self._root = root
        self._tiers = tiers
        self._read: dict[str, tuple[tuple[int, int], str]] = {}
        self._looking = asyncio.Lock()
        self._next: dict[str, asyncio.Task[ContextFiles]] = {}

    async def context_files(self, tier: str) -> ContextFiles:
        """See ``Workspace.context_files``."""
        names = self._tiers.get(tier)
        if names is None:
            return ContextFiles([], [])
        look = self._next.get(tier)
        if look is None:
            look = self._next[tier] = asyncio.create_task(self._look(tier, names))
        return await asyncio.shield(look)  # who is cancelled leaves the look to the others

    async def _look(self, tier: str, names: TierNames) -> ContextFiles:
        async with self._looking:
            del self._next[tier]  # who asks from here on may want what is written from here on
            return await asyncio.to_thread(self._context_files, names)

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
