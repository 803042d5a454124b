"""API keys as a table."""

from collections.abc import Sequence
from datetime import datetime

from cli.rules.moments import local_time
from cli.rules.table import Column, Table
from shared.ports.api_keys import KeyRecord

_COLUMNS = (Column("Key"), Column("May"), Column("Made"), Column("Last used"), Column("Revoked"))


def keys_table(records: Sequence[KeyRecord]) -> Table:
    """One line for each, in the order in which they come."""
    return Table(_COLUMNS, [_row(record) for record in records])


def _row(record: KeyRecord) -> tuple[str, ...]:
    times = (_moment(time) for time in (record.created_at, record.last_used_at, record.revoked_at))
    return (record.name, " ".join(sorted(record.scopes)), *times)


def _moment(time: datetime | None) -> str:
    return local_time(time.timestamp()) if time is not None else "-"
