"""Reads the workspace's files, and nothing outside of it."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path, PurePosixPath

import structlog

from services.indexer.ports import Scan
from shared.ports.files import KnownFile

log = structlog.get_logger(__name__)

LARGEST_FILE = 10 * 1024 * 1024
PIECE = 256 * 1024
BUILT_IN_EXCLUDES = ("memory/cache",)


class _TooLarge(Exception):
    """More bytes than are indexed."""


@dataclass(frozen=True, slots=True)
class WorkspaceFolder:
    """``Workspace`` of the ports. ``patterns`` and ``exclude_dirs`` are relative to ``root``; no excluded folder means
    the built-in one, ``memory/cache``. A link that leads out of ``root`` is as if it were not there."""

    root: Path
    patterns: Sequence[str]
    exclude_dirs: Sequence[str] = ()

    def scan(self) -> Scan:
        """See ``Workspace.scan``."""
        root = self.root.resolve()
        files: dict[str, KnownFile] = {}
        unreadable: set[str] = set()
        too_large: set[str] = set()
        for path in self._candidates():
            name = path.relative_to(self.root).as_posix()
            if name in files or name in unreadable or name in too_large or self._is_excluded(name):
                continue
            try:
                real = path.resolve(strict=True)
                if real.is_relative_to(root) and real.is_file():
                    files[name] = _read(real, name)
            except _TooLarge:
                too_large.add(name)
            except (OSError, RuntimeError, UnicodeEncodeError) as fault:
                # Gone since it was listed, forbidden, a loop of links, a name that is no text.
                log.warning("file_unreadable", error=type(fault).__name__)
                unreadable.add(name)
        return Scan(files, unreadable, too_large)

    def read(self, path: str) -> tuple[KnownFile, str] | None:
        """See ``Workspace.read``. Bytes that are no UTF-8 are U+FFFD in the text."""
        root, content = self.root.resolve(), bytearray()
        try:
            real = (self.root / path).resolve(strict=True)
            if not real.is_relative_to(root):
                return None
            file = _read(real, path, content)
        except (_TooLarge, OSError, RuntimeError, UnicodeEncodeError) as fault:
            log.warning("file_unreadable", error=type(fault).__name__)
            return None
        return file, content.decode("utf-8-sig", "replace")

    def _candidates(self) -> Iterator[Path]:
        for pattern in self.patterns:
            if PurePosixPath(pattern).is_absolute() or ".." in PurePosixPath(pattern).parts or not pattern.strip():
                log.warning("pattern_passed_over", pattern=pattern)
                continue
            paths = self.root.glob(pattern)
            while True:
                try:
                    path = next(paths, None)
                except OSError as fault:  # a folder went away while it was walked
                    log.warning("folder_unreadable", error=type(fault).__name__)
                    break
                if path is None:
                    break
                yield path

    def _is_excluded(self, name: str) -> bool:
        excluded = self.exclude_dirs or BUILT_IN_EXCLUDES
        return any(PurePosixPath(name).is_relative_to(PurePosixPath(folder)) for folder in excluded if folder.strip())


def _read(path: Path, name: str, into: bytearray | None = None) -> KnownFile:
    """What is to be known of a file; its content goes ``into``, where somebody wants it."""
    name.encode("utf-8")
    # Not blocking: somebody may have put a pipe where a file was a moment ago.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - of a descriptor
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError("not a file")
        if about.st_size > LARGEST_FILE:
            raise _TooLarge
        digest, size = sha256(), 0
        while piece := file.read(PIECE):
            size += len(piece)
            if size > LARGEST_FILE:  # it grew while it was read
                raise _TooLarge
            digest.update(piece)
            if into is not None:
                into += piece
    return KnownFile(name, digest.hexdigest(), size, datetime.fromtimestamp(about.st_mtime, UTC))
