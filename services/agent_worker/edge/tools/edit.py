"""Replacing a passage of a file."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from services.agent_worker.edge.tools.hash_proof import hash_proof, sha256, verdict
from services.agent_worker.edge.tools.paths import FILE_PATH, PERSONALITY_FILES, AllowedPaths, ProtectedFiles
from services.agent_worker.edge.tools.real_files import changing, file_errors
from services.agent_worker.ports import Proof, ToolFailed, ToolUse, Verdict
from shared.domain.effect import ToolSpec

_MOST_BYTES = 50 * 1024 * 1024

_SPEC = ToolSpec(
    name="edit",
    description=(
        "Replace a passage of a text file. old_string must be exactly what stands in the file, white space included "
        "and without the line numbers that read puts before lines, and must occur once; add lines around it until it "
        "is unique, or set replace_all to replace every occurrence."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "file_path": FILE_PATH,
            "old_string": {"type": "string", "description": "The text to replace."},
            "new_string": {"type": "string", "description": "The text to put in its place; may be empty."},
            "replace_all": {
                "type": "boolean",
                "description": "Replace every occurrence instead of the only one.",
                "default": False,
            },
        },
        "required": ["file_path", "old_string", "new_string"],
    },
    effect="once",
)


class EditTool:
    """Changes passages of UTF-8 files in the allowed folders; line endings stay those of the file."""

    def __init__(self, paths: AllowedPaths, *, protected_names: Sequence[str] = PERSONALITY_FILES) -> None:
        self._paths = paths
        self._protected = ProtectedFiles(protected_names, paths.workspace)

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Replace. Raises ``ToolFailed`` when the passage is absent or ambiguous, or the file can't be changed."""
        return await asyncio.to_thread(self._edit, arguments)

    async def prove(self, arguments: Mapping[str, Any], use: ToolUse) -> Proof | None:
        """The hashes of what is there and of what will be; ``None`` when the edit can only fail."""
        return await asyncio.to_thread(self._prove, arguments)

    async def verify(self, proof: Proof) -> Verdict:
        """Whether the file is what it was to become."""
        return await asyncio.to_thread(verdict, proof, self._paths)

    def _edit(self, arguments: Mapping[str, Any]) -> str:
        path = self._path(arguments)
        with file_errors(path), changing(path.parent) as folder:
            before = folder.read(path.name, at_most=_MOST_BYTES)
            after, count = _edited(before, arguments, path)
            folder.replace(path.name, after)
        return f"Edited {path} ({count} replacement{'' if count == 1 else 's'})"

    def _prove(self, arguments: Mapping[str, Any]) -> Proof | None:
        try:
            path = self._path(arguments)
            with file_errors(path), changing(path.parent) as folder:
                before = folder.read(path.name, at_most=_MOST_BYTES)
            after, _ = _edited(before, arguments, path)
        except ToolFailed:
            return None
        return hash_proof(path, before=sha256(before), after=sha256(after))

    def _path(self, arguments: Mapping[str, Any]) -> Path:
        path = self._paths.resolve(arguments["file_path"])
        self._protected.refuse(path)
        self._paths.refuse_change(path)
        return path


def _edited(data: bytes, arguments: Mapping[str, Any], path: Path) -> tuple[bytes, int]:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ToolFailed(f"Not a text file (binary): {path}") from error
    old, new = arguments["old_string"], arguments["new_string"]
    edited, count = replaced(text, old, new, replace_all=arguments.get("replace_all", False))
    try:
        return edited.encode(), count
    except UnicodeEncodeError as error:
        raise ToolFailed("new_string holds characters that are not valid Unicode") from error


def replaced(text: str, old: str, new: str, *, replace_all: bool) -> tuple[str, int]:
    """The text with ``old`` replaced, and how often. Raises ``ToolFailed`` when there is not exactly one to replace.

    In a text whose lines all end with CRLF, line breaks in ``old`` and ``new`` are taken to mean CRLF: what a model
    was shown does not tell them apart.
    """
    if not old:
        raise ToolFailed("old_string is empty; use write to create a file")
    if "\r\n" in text and text.count("\r\n") == text.count("\n"):
        old, new = (re.sub("\r?\n", "\r\n", each) for each in (old, new))
    if old == new:
        raise ToolFailed("old_string and new_string are the same")
    first = text.find(old)
    if first < 0:
        raise ToolFailed("old_string was not found in the file")
    count = text.count(old)
    # Occurrences may overlap: then they count as one and are still ambiguous.
    if not replace_all and text.find(old, first + 1) >= 0:
        raise ToolFailed(
            f"old_string occurs {max(count, 2)} times in the file; add text around it to make it unique, "
            "or set replace_all"
        )
    return text.replace(old, new), count
