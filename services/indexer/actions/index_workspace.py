"""Bring the table of files up to date with the workspace."""

from collections.abc import Mapping

import structlog

from services.indexer.ports import Workspace
from services.indexer.rules.changes import changes
from shared.ports.files import Files

log = structlog.get_logger(__name__)


async def index_workspace(workspace: Workspace, files: Files) -> Mapping[str, int]:
    """Look, compare, write down; doing it twice leaves the table as doing it once. Raises ``TryLater``.

    Counts: ``indexed`` (new and changed), ``skipped`` (unchanged and too large), ``removed`` (known, but gone),
    ``errors`` (could not be read; what was known of them stays), ``total`` (all that match: the first two and errors).
    """
    scan = workspace.scan()
    found = {path: file.hash for path, file in scan.files.items()}
    change = changes(await files.hashes(), found, scan.unreadable)
    await files.put([scan.files[path] for path in sorted(change.new | change.changed)])
    await files.remove(change.vanished)
    indexed, skipped = len(change.new) + len(change.changed), len(change.unchanged) + len(scan.too_large)
    counts = {
        "indexed": indexed,
        "skipped": skipped,
        "removed": len(change.vanished),
        "errors": len(scan.unreadable),
        "total": indexed + skipped + len(scan.unreadable),
    }
    log.info("workspace_indexed", **counts)
    return counts
