"""How a tool that replaces a file can tell afterwards whether it did: by the file's hash before and after."""

import hashlib
from pathlib import Path

from services.agent_worker.edge.tools.paths import AllowedPaths
from services.agent_worker.edge.tools.real_files import digest
from services.agent_worker.ports import Proof, ToolFailed, Verdict


def sha256(data: bytes) -> str:
    """The hash in hexadecimal, as proofs carry it."""
    return hashlib.sha256(data).hexdigest()


def hash_proof(path: Path, *, before: str | None, after: str) -> Proof:
    """What to store before the file at the real ``path`` is replaced; ``before`` is ``None`` when there is no file."""
    return {"path": str(path), "before": before, "after": after}


def verdict(proof: Proof, paths: AllowedPaths) -> Verdict:
    """Compare the file with the proof. Anything else than one of the two hashes, or no look at it, is ``unknown``."""
    if not isinstance(proof.get("path"), str) or not isinstance(proof.get("after"), str) or "before" not in proof:
        return "unknown"
    try:
        path = paths.resolve(proof["path"])
        # Where a link has been put in the path since, the file that was meant can't be seen from here.
        now = digest(path) if str(path) == proof["path"] else ""
    except ToolFailed:
        return "unknown"
    if now == proof["after"]:
        return "done"
    return "not_done" if now == proof["before"] else "unknown"
