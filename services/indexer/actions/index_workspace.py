"""Bring the index up to date with the workspace."""

from collections.abc import Mapping

import structlog

from services.indexer.ports import Workspace
from services.indexer.rules.changes import changes
from services.indexer.rules.chunking import Chunking
from shared.ports.files import Files

log = structlog.get_logger(__name__)


async def index_workspace(workspace: Workspace, files: Files, chunking: Chunking) -> Mapping[str, int]:
    """Look, compare, write down; doing it twice leaves the tables as doing it once. Raises ``TryLater``, and what was
    written down until then stays.

    Counts: ``indexed`` (new and changed, or cut otherwise before), ``skipped`` (unchanged and too large), ``removed``
    (known, but gone), ``errors`` (could not be read; what was known of them stays), ``total`` (all that match: the
    first two and errors).
    """
    scan = workspace.scan()
    found = {path: file.hash for path, file in scan.files.items()}
    change = changes(await files.hashes(chunking=chunking.name), found, scan.unreadable)
    indexed, lost = 0, 0
    for path in sorted(change.new | change.changed):
        if (now := workspace.read(path)) is None:  # since the look a moment ago
            lost += 1
            continue
        file, text = now
        await files.put(file, chunking.chunks(path, text), chunking=chunking.name)
        indexed += 1
    await files.remove(change.vanished)
    skipped, errors = len(change.unchanged) + len(scan.too_large), len(scan.unreadable) + lost
    counts = {
        "indexed": indexed,
        "skipped": skipped,
        "removed": len(change.vanished),
        "errors": errors,
        "total": indexed + skipped + errors,
    }
    log.info("workspace_indexed", **counts)
    return counts
