"""A table before anybody decided how to draw it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; ``right`` for numbers."""

    name: str
    right: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """``rows`` and ``total`` have one text for each column."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    total: Sequence[str] | None = None
    title: str = ""


def plain_lines(table: Table) -> list[str]:
    """The table in columns of equal width, for pipes and files."""
    rows = [*table.rows, *([table.total] if table.total else [])]
    widths = [max(len(column.name), *(len(row[at]) for row in rows), 0) for at, column in enumerate(table.columns)]
    rule = "─" * (sum(widths) + 2 * (len(widths) - 1))
    lines = [table.title, ""] if table.title else []
    lines += [_aligned([column.name for column in table.columns], table.columns, widths), rule]
    lines += [_aligned(row, table.columns, widths) for row in table.rows]
    if table.total:
        lines += [rule, _aligned(table.total, table.columns, widths)]
    return lines


def _aligned(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    placed = (
        cell.rjust(width) if column.right else cell.ljust(width)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    )
    return "  ".join(placed).rstrip()
