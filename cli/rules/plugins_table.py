"""Plugins as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from cli.rules.clean_text import one_line
from cli.rules.table import Column, Table

_COLUMNS = (Column("Plugin"), Column("State"), Column("Workers", right=True), Column("Tools"), Column("Notes"))


def plugins_table(plugins: Sequence[Mapping[str, Any]]) -> Table:
    """One line for each; a failure tells why."""
    return Table(_COLUMNS, [_row(each) for each in plugins])


def _row(plugin: Mapping[str, Any]) -> tuple[str, ...]:
    reason, notes = str(plugin.get("reason") or ""), [str(note) for note in plugin.get("notes") or ()]
    preprocessors = [f"({name})" for name in plugin.get("preprocessors") or ()]
    return (
        one_line(str(plugin.get("name", "?")), 32),
        str(plugin.get("state", "?")),
        str(plugin.get("loaded_by", "?")),
        one_line(" ".join([*map(str, plugin.get("tools") or ()), *preprocessors]) or "-", 60),
        one_line("; ".join([reason, *notes] if reason else notes) or "-", 200),
    )
