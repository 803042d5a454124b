"""Reads the workspace's personality and memory files, again only when they have changed.

The agent and its commands may write in the workspace, so a name there may lead to a secret, a pipe or a device by the
time it is read: files are opened as the tools open theirs, and what tools may not read no prompt shows.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from services.agent_worker.edge.tools.paths import AllowedPaths
from services.agent_worker.edge.tools.real_files import open_file
from services.agent_worker.ports import ToolFailed
from services.agent_worker.rules.prompt import ContextFiles

log = structlog.get_logger(__name__)

LONGEST_FILE = 1_000_000
"""Characters; what is longer is cut, for it could never be sent to a model."""

LONGEST_CHARACTER = 4
"""Bytes of UTF-8."""

Version = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class TierNames:
    """Which files a context tier shows, by name."""

    stable: Sequence[str] = ()
    semi_stable: Sequence[str] = ()


class WorkspaceFiles:
    """``Workspace`` of the desk. An unknown tier has no files, as in the original.

    A look at the folder is made in a thread, for it may lie on a network. One look is for everybody who asked before
    it began: threads that take turns with a busy event loop cost more than the look itself.

    ``paths`` says what may be read, wherever links lead. What may not, or can't be, is left out, and the log says so
    once for each state that it is in.
    """

    def __init__(self, paths: AllowedPaths, tiers: Mapping[str, TierNames]) -> None:
        self._paths = paths
        self._tiers = tiers
        self._read: dict[str, tuple[Version, str | None]] = {}
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
        try:
            state = (self._paths.workspace / name).stat()
        except FileNotFoundError:
            return None
        except OSError as fault:
            log.warning("context_file_unreadable", file=name, error=type(fault).__name__)
            return None
        version = (state.st_dev, state.st_ino, state.st_mtime_ns, state.st_size)
        held = self._read.get(name)
        if held is None or held[0] != version:
            held = self._read[name] = version, self._opened(name)
        return held[1]

    def _opened(self, name: str) -> str | None:
        try:
            with open_file(self._paths.resolve(name)) as stream:
                data = stream.read(LONGEST_FILE * LONGEST_CHARACTER)
        except ToolFailed as fault:
            log.warning("context_file_refused", file=name, reason=str(fault))
        except OSError as fault:
            log.warning("context_file_unreadable", file=name, error=type(fault).__name__)
        else:
            return data.decode("utf-8", "replace")[:LONGEST_FILE]
        return None
