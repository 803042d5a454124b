"""Reading a text file, a page of numbered lines at a time."""

import asyncio
import codecs
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from services.agent_worker.edge.tools.paths import FILE_PATH, AllowedPaths
from services.agent_worker.edge.tools.real_files import file_errors, open_file
from services.agent_worker.ports import ToolFailed, ToolUse
from shared.domain.effect import ToolSpec

LINE_LENGTH = 2000
"""Characters of a line that are shown."""

_PIECE_BYTES = 16 * 1024  # holds LINE_LENGTH characters in any encoding of theirs
_SNIFF_BYTES = 8 * 1024
_PAGE_CHARACTERS = 1_000_000
_COUNTED_BYTES = 50 * 1024 * 1024
_SCANNED_BYTES = 256 * 1024 * 1024


class ReadTool:
    """Shows text files of the allowed folders. Never holds more than a page of a file, however large it is."""

    def __init__(self, paths: AllowedPaths, *, default_limit: int = 2000) -> None:
        self._paths = paths
        self._default_limit = default_limit
        self._spec = ToolSpec(
            name="read",
            description=(
                "Read a text file. Returns numbered lines: the line number, a tab, the line. Lines longer than "
                f"{LINE_LENGTH} characters are cut. When the file has more lines than returned, the last line says "
                "how many are left; call again with a larger offset to go on."
            ),
            input_schema={
                "type": "object",
                "properties": {
                    "file_path": FILE_PATH,
                    "offset": {
                        "type": "integer",
                        "description": "How many lines to skip; 0 begins with the first line.",
                        "default": 0,
                    },
                    "limit": {
                        "type": "integer",
                        "description": "How many lines to return at most.",
                        "default": default_limit,
                    },
                },
                "required": ["file_path"],
            },
            effect="read",
        )

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return self._spec

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """The page. Raises ``ToolFailed`` when the file is missing, no file, binary, not allowed or not readable."""
        offset, limit = arguments.get("offset", 0), arguments.get("limit", self._default_limit)
        if offset < 0:
            raise ToolFailed("offset must not be negative")
        if limit < 1:
            raise ToolFailed("limit must be at least 1")
        return await asyncio.to_thread(self._read, arguments["file_path"], offset, limit)

    def _read(self, text: str, offset: int, limit: int) -> str:
        path = self._paths.resolve(text)
        with file_errors(path), open_file(path) as stream:
            if b"\0" in stream.read(_SNIFF_BYTES):
                raise ToolFailed(f"Not a text file (binary): {path}")
            stream.seek(0)
            return _page(stream, path, offset, limit)


def _page(stream: BinaryIO, path: Path, offset: int, limit: int) -> str:
    lines = _lines(stream)
    skipped = sum(1 for _ in islice(lines, offset))
    if skipped < offset:
        return _nothing_there(stream, offset, skipped)
    shown: list[str] = []
    size = 0
    is_cut = False
    for number, piece in enumerate(islice(lines, limit), start=offset + 1):
        line = _text(piece, path)
        is_cut = is_cut or len(line) > LINE_LENGTH
        shown.append(f"{number:>6}\t{line[:LINE_LENGTH]}")
        size += len(shown[-1])
        if size > _PAGE_CHARACTERS:
            break
    if not shown:
        return _nothing_there(stream, offset, skipped)
    if is_cut:
        shown.append(f"... (lines longer than {LINE_LENGTH} characters were cut)")
    if left := _lines_left(stream):
        shown.append(left)
    return "\n".join(shown)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """The beginning of each line. Ends early, not at a line's end, when a file is too long to be gone through."""
    scanned = 0
    while scanned < _SCANNED_BYTES and (piece := stream.readline(_PIECE_BYTES)):
        rest = piece
        scanned += len(rest)
        while not rest.endswith(b"\n") and scanned < _SCANNED_BYTES and (rest := stream.readline(_PIECE_BYTES)):
            scanned += len(rest)
        yield piece


def _text(piece: bytes, path: Path) -> str:
    is_whole = piece.endswith(b"\n") or len(piece) < _PIECE_BYTES
    try:
        # A piece may end within a character; that one is far behind what is shown.
        line = codecs.getincrementaldecoder("utf-8")().decode(piece, final=is_whole)
    except UnicodeDecodeError as error:
        raise ToolFailed(f"Not a text file (binary): {path}") from error
    return line.removesuffix("\n").removesuffix("\r")


def _nothing_there(stream: BinaryIO, offset: int, lines: int) -> str:
    if stream.read(1):
        raise ToolFailed(f"line {offset} lies too deep in a very large file; use exec to look there")
    if lines == 0:
        return "(empty file)"
    return f"(nothing from offset {offset} on: the file has {_count(lines)})"


def _lines_left(stream: BinaryIO) -> str:
    """The trailer; lines are counted only in files where that takes no time worth mentioning."""
    if os.fstat(stream.fileno()).st_size > _COUNTED_BYTES:
        return "... (more lines)" if stream.read(1) else ""
    count, counted, last = 0, 0, b"\n"
    while counted <= _COUNTED_BYTES and (chunk := stream.read(1024 * 1024)):
        count += chunk.count(b"\n")
        counted += len(chunk)
        last = chunk[-1:]
    count += last != b"\n"
    return f"... ({_count(count, 'more ')})" if count else ""


def _count(lines: int, kind: str = "") -> str:
    return f"{lines} {kind}line" + ("" if lines == 1 else "s")
