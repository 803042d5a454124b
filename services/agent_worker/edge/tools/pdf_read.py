"""Reading the text of a PDF."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from services.agent_worker.edge.tools.paths import FILE_PATH, AllowedPaths
from services.agent_worker.edge.tools.real_files import file_errors, open_file
from services.agent_worker.ports import ToolFailed, ToolUse
from services.agent_worker.rules.page_ranges import page_ranges
from shared.domain.effect import ToolSpec
from shared.errors import BadInput

CHARACTERS = 100_000
"""Of the text that one call gives."""

LARGEST = 100 * 1024 * 1024
"""Bytes of a document."""

WITHIN = 60.0
"""Seconds."""

AT_ONCE = 2

_SPEC = ToolSpec(
    name="pdf_read",
    description=(
        f"Read the text of a PDF file, page by page, up to {CHARACTERS} characters. Pages without text, such as "
        "scanned ones, are named at the end."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "file_path": FILE_PATH,
            "pages": {
                "type": "string",
                "description": "Which pages, counted from 1: such as 1-5,7, or 3- for all from the third on.",
                "default": "1-",
            },
        },
        "required": ["file_path"],
    },
    effect="read",
)


class PdfReadTool:
    """Reads PDFs of the allowed folders, each in a process of its own that ends after a minute at the latest."""

    def __init__(self, paths: AllowedPaths) -> None:
        self._paths = paths
        self._turn = asyncio.Semaphore(AT_ONCE)

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """The text. Raises ``ToolFailed`` when the file can't be had, is no PDF, or none of the pages is there."""
        pages = arguments.get("pages") or "1-"
        try:
            page_ranges(pages)
        except BadInput as fault:
            raise ToolFailed(str(fault)) from fault
        async with self._turn:
            return await asyncio.to_thread(self._read, arguments["file_path"], pages)

    def _read(self, text: str, pages: str) -> str:
        path = self._paths.resolve(text)
        with file_errors(path), open_file(path) as stream:
            if not stream.read(1024).lstrip().startswith(b"%PDF-"):
                raise ToolFailed(f"Not a PDF file: {path}")
            if os.fstat(stream.fileno()).st_size > LARGEST:
                raise ToolFailed(f"The document is larger than {LARGEST // 1024 // 1024} MiB: {path}")
            stream.seek(0)
            data = stream.read(LARGEST)
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "services.agent_worker.edge.tools.pdf_text", pages, str(CHARACTERS)],
                input=data,
                capture_output=True,
                timeout=WITHIN,
                env={"PATH": os.defpath, "PYTHONUTF8": "1"},
                check=False,
            )
        except subprocess.TimeoutExpired as fault:
            raise ToolFailed(f"The document could not be read within {WITHIN:g} seconds: {path}") from fault
        if done.returncode == 1 and done.stderr and not done.stderr.startswith(b"Traceback"):
            raise ToolFailed(f"{done.stderr.decode(errors='replace')[:500]}: {path}")
        if done.returncode != 0:
            raise ToolFailed(f"The document can't be read: {path}")
        return done.stdout.decode(errors="replace")
