"""Styles and tables on a terminal."""

from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table as Picture
from rich.text import Text

from cli.rules.table import Table


class Drawing:
    """A terminal that shows styles; NO_COLOR and TERM=dumb are respected."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False)

    def write(self, text: str, style: str) -> None:
        """Write text as it is, without wrapping it."""
        self._console.print(Text(text, style=style), end="", soft_wrap=True)

    def table(self, table: Table) -> None:
        """Draw a table as wide as it needs to be, folding cells where the terminal is too narrow."""
        picture = Picture(
            title=Text(table.title, style="bold") if table.title else None,
            title_justify="left",
            box=box.SIMPLE_HEAD,
            show_footer=bool(table.total),
            header_style="bold",
            footer_style="bold",
            pad_edge=False,
        )
        for at, column in enumerate(table.columns):
            total = Text(table.total[at]) if table.total else ""
            picture.add_column(Text(column.name), total, justify="right" if column.right else "left", overflow="fold")
        for row in table.rows:
            picture.add_row(*map(Text, row))
        self._console.print(picture)

    def clear(self) -> None:
        """Begin at the top again."""
        self._console.clear()
