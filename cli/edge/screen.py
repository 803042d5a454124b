"""Writes to the terminal, or plainly to whatever stands in its place."""

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TextIO

from cli.rules.clean_text import clean
from cli.rules.pieces import Kind, Piece
from cli.rules.table import Table, plain_lines

if TYPE_CHECKING:
    from cli.edge.drawing import Drawing

_STYLES: Mapping[Kind, str] = {
    "reply": "",
    "thinking": "dim italic",
    "aside": "dim",
    "warning": "yellow",
    "error": "red",
    "strong": "bold",
}


class Screen:
    """Standard output, and standard error for what is about the output. ``apart`` sends asides to standard error."""

    def __init__(self, *, apart: bool = False) -> None:
        self._out = _Paper(sys.stdout)
        self._err = _Paper(sys.stderr)
        self._apart = apart

    @property
    def is_terminal(self) -> bool:
        """Whether a person sees standard output."""
        return self._out.is_terminal

    @property
    def asides_are_seen(self) -> bool:
        """Whether a person sees what is told beside the reply."""
        return self._err.is_terminal if self._apart else True

    def show(self, pieces: Iterable[Piece]) -> None:
        """Write pieces, each where it belongs, at once."""
        for piece in pieces:
            aside = self._apart and piece.kind not in {"reply", "strong"}
            (self._err if aside else self._out).write(piece.text, _STYLES[piece.kind])

    def say(self, line: str, kind: Kind = "reply") -> None:
        """Write one line."""
        self.show([Piece(f"{line}\n", kind)])

    def complain(self, line: str) -> None:
        """Write one line to standard error."""
        self._err.write(f"{line}\n", _STYLES["error"])

    def table(self, table: Table) -> None:
        """Draw a table."""
        self._out.table(table)

    def clear(self) -> None:
        """Begin at the top again, on a terminal."""
        self._out.clear()


class _Paper:
    """One stream. A terminal gets styles and no control characters of others; anything else gets the bare text."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty()
        self._drawn: Drawing | None = None

    def write(self, text: str, style: str) -> None:
        if self.is_terminal and style:
            self._drawing().write(clean(text), style)
        else:
            self._stream.write(clean(text) if self.is_terminal else text)
        self._stream.flush()

    def table(self, table: Table) -> None:
        if self.is_terminal:
            self._drawing().table(table)
        else:
            self._stream.write("".join(f"{line}\n" for line in plain_lines(table)))

    def clear(self) -> None:
        if self.is_terminal:
            self._drawing().clear()

    def _drawing(self) -> "Drawing":
        if self._drawn is None:
            from cli.edge.drawing import Drawing  # noqa: PLC0415 - only a terminal needs rich, which takes 0.1 s

            self._drawn = Drawing(self._stream)
        return self._drawn
