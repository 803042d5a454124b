"""A text in pieces of whole lines, as they are searched and found. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from shared.ports.files import Chunk

MADE = 1
"""Raised with every change of how pieces are made: all files are cut anew then."""


@dataclass(frozen=True, slots=True)
class Chunking:
    """``size`` and ``overlap`` are characters. Whole lines are packed up to ``size``, a longer line alone. A piece
    begins with so many of the last lines of the one before as have ``overlap`` characters together, line ends counted,
    and leave room for the next line: no piece is a part of another."""

    size: int = 1600
    overlap: int = 320

    @property
    def name(self) -> str:
        """What is noted with a file that was cut so."""
        return f"{MADE}:{self.size}/{self.overlap}"

    def chunks(self, path: str, text: str) -> list[Chunk]:
        """The pieces in their order; every line is in at least one."""
        lines = _lines(text)
        found, start = [], 0
        while start < len(lines):
            end = self._end(lines, start)
            piece = "\n".join(lines[start:end])
            found.append(Chunk(chunk_id(path, piece), start + 1, end, piece))
            if end == len(lines):
                break
            start = self._next(lines, start, end)
        return found

    def _end(self, lines: Sequence[str], start: int) -> int:
        taken, end = len(lines[start]), start + 1
        while end < len(lines) and taken + 1 + len(lines[end]) <= self.size:
            taken += 1 + len(lines[end])
            end += 1
        return end

    def _next(self, lines: Sequence[str], start: int, end: int) -> int:
        shared, begin = 0, end
        room = min(self.overlap, self.size - len(lines[end]))
        while begin > start + 1 and shared + len(lines[begin - 1]) + 1 <= room:
            begin -= 1
            shared += len(lines[begin]) + 1
        return begin


def chunk_id(path: str, text: str) -> str:
    """SHA-256 of ``path:text`` in hex: the same piece of the same file, wherever in it."""
    return sha256(f"{path}:{text}".encode()).hexdigest()


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines
