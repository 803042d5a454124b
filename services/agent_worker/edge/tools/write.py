"""Writing a whole file."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from services.agent_worker.edge.tools.hash_proof import hash_proof, sha256, verdict
from services.agent_worker.edge.tools.paths import FILE_PATH, PERSONALITY_FILES, AllowedPaths, ProtectedFiles
from services.agent_worker.edge.tools.real_files import changing, digest, file_errors
from services.agent_worker.ports import Proof, ToolFailed, ToolUse, Verdict
from shared.domain.effect import ToolSpec

_SPEC = ToolSpec(
    name="write",
    description=(
        "Write a text file: create it, with the folders above it, or replace its whole content. "
        "To change a part of an existing file use edit."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "file_path": FILE_PATH,
            "content": {"type": "string", "description": "The whole new content of the file."},
        },
        "required": ["file_path", "content"],
    },
    effect="idempotent",
)


class WriteTool:
    """Replaces whole files in the allowed folders: in a crash, a file is the old one or the new one."""

    def __init__(self, paths: AllowedPaths, *, protected_names: Sequence[str] = PERSONALITY_FILES) -> None:
        self._paths = paths
        self._protected = ProtectedFiles(protected_names, paths.workspace)

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Write. Raises ``ToolFailed`` where the file may not or cannot be written; then it is as it was."""
        return await asyncio.to_thread(self._write, arguments["file_path"], arguments["content"])

    async def prove(self, arguments: Mapping[str, Any], use: ToolUse) -> Proof | None:
        """The hashes of what is there and of what will be."""
        return await asyncio.to_thread(self._prove, arguments["file_path"], arguments["content"])

    async def verify(self, proof: Proof) -> Verdict:
        """Whether the file is what it was to become."""
        return await asyncio.to_thread(verdict, proof, self._paths)

    def _write(self, text: str, content: str) -> str:
        path, data = self._path(text), _encoded(content)
        with file_errors(path), changing(path.parent, create=True) as folder:
            folder.replace(path.name, data)
        return f"Written {len(content)} characters to {path}"

    def _prove(self, text: str, content: str) -> Proof | None:
        try:
            path, data = self._path(text), _encoded(content)
            return hash_proof(path, before=digest(path), after=sha256(data))
        except ToolFailed:
            return None

    def _path(self, text: str) -> Path:
        path = self._paths.resolve(text)
        self._protected.refuse(path)
        self._paths.refuse_change(path)
        return path


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolFailed("content holds characters that are not valid Unicode") from error
