"""Reading what is indexed of a workspace file."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from services.agent_worker.ports import ToolFailed, ToolUse
from services.agent_worker.rules.stitching import stitched
from shared.domain.effect import ToolSpec
from shared.ports.memory import Memory

DEFAULT_LINES = 50
MOST_CHUNKS = 200
LAST_LINE = 2**31 - 1

_SPEC = ToolSpec(
    name="memory_get",
    description=(
        "Read a part of an indexed memory file by its path, for example 'MEMORY.md' or 'memory/2026-05-21.md'. Use "
        "memory_search first to find the path and the lines."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "Relative to the workspace."},
            "start_line": {"type": "integer", "default": 0, "description": "So many lines are passed over."},
            "end_line": {"type": "integer", "default": DEFAULT_LINES, "description": "The last line, counted from 1."},
        },
        "required": ["file_path"],
    },
    effect="read",
)


class MemoryGetTool:
    """Shows the pieces of files that the search finds, put together again. It reads no file."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """The lines of all pieces that reach into the range. Raises ``ToolFailed`` for a range without a line."""
        path = PurePosixPath(arguments["file_path"].strip()).as_posix()
        start = max(0, min(arguments.get("start_line", 0), LAST_LINE - 1))
        end = min(arguments.get("end_line", start + DEFAULT_LINES), LAST_LINE)
        if end <= start:
            raise ToolFailed("'end_line' must be greater than 'start_line'")
        passages = await self._memory.lines(path, start + 1, end, limit=MOST_CHUNKS)
        if not passages:
            return f"No chunks found for {path[:300]} lines {start}-{end}"
        text, first, last = stitched(passages)
        return f"{text}\n[{path}, lines {first}-{last}]"
