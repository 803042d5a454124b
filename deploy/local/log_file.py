"""A child's log: the child writes it by itself, the launcher keeps it small and reads along."""

from pathlib import Path
from typing import BinaryIO

LARGEST = 10_000_000
"""Bytes from which a log is put aside at the next start."""

KEPT = 3

_READ_AT_ONCE = 256_000


def open_log(file: Path) -> BinaryIO:
    """Open a log to append to; one that has grown too large is put aside first, the last three are kept."""
    if file.exists() and file.stat().st_size > LARGEST:
        for number in range(KEPT - 1, 0, -1):
            older = file.with_name(f"{file.name}.{number}")
            if older.exists():
                older.replace(file.with_name(f"{file.name}.{number + 1}"))
        file.replace(file.with_name(f"{file.name}.1"))
    return file.open("ab")


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
