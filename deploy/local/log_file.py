"""A child's log: the child writes it by itself, the launcher keeps it small and reads along."""

import os
from pathlib import Path
from typing import BinaryIO

LARGEST = 10_000_000
"""Bytes from which a log is put aside."""

KEPT = 3

_COPIED_AT_ONCE = 1_000_000
_READ_AT_ONCE = 256_000


def open_log(file: Path) -> BinaryIO:
    """Open a log to append to; one that has grown too large is put aside first, the last three are kept."""
    if _is_too_large(file):
        file.replace(_make_room(file))
    return file.open("ab")


def keep_small(file: Path) -> bool:
    """Put aside what has grown too large while somebody writes it; whether that was so.

    The writer keeps its file, which it must have opened to append: what is in there is copied, then the file is made
    empty. A line that is written between the two is lost; they are microseconds apart.
    """
    if not _is_too_large(file):
        return False
    with _make_room(file).open("wb") as aside, file.open("rb") as log:
        while piece := log.read(_COPIED_AT_ONCE):
            aside.write(piece)
        os.truncate(file, 0)
    return True


def _is_too_large(file: Path) -> bool:
    try:
        return file.stat().st_size > LARGEST
    except FileNotFoundError:
        return False


def _make_room(file: Path) -> Path:
    """Move the older ones on by one; the free name."""
    for number in range(KEPT - 1, 0, -1):
        older = file.with_name(f"{file.name}.{number}")
        if older.exists():
            older.replace(file.with_name(f"{file.name}.{number + 1}"))
    return file.with_name(f"{file.name}.1")


class LogReader:
    """Reads what was appended since the last look."""

    def __init__(self, file: Path) -> None:
        """Begin at the end of the file as it is now."""
        self._file = file
        self._place = file.stat().st_size if file.exists() else 0
        self._rest = b""

    def new_lines(self, *, to_the_end: bool = False) -> list[str]:
        """Return the complete lines that are new, and with ``to_the_end`` the begun one too.

        A flood is read in bounded bites: what does not fit comes with the next call.
        """
        try:
            with self._file.open("rb") as log:
                if self._place > log.seek(0, os.SEEK_END):
                    self._place, self._rest = 0, b""  # it was put aside, and this is a new one
                log.seek(self._place)
                text = log.read(_READ_AT_ONCE)
        except FileNotFoundError:
            text = b""
        self._place += len(text)
        *lines, self._rest = (self._rest + text).split(b"\n")
        if self._rest and (to_the_end or len(self._rest) > _READ_AT_ONCE):
            lines.append(self._rest)
            self._rest = b""
        return [line.decode(errors="replace") for line in lines]
