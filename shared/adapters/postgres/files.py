"""The table of workspace files."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

from shared.adapters.postgres.pool import Database
from shared.ports.files import KnownFile

HASHES = "select path, hash from files where source = 'memory'"
PUT = """
insert into files (path, hash, size, mtime)
select * from unnest(%s::text[], %s::text[], %s::bigint[], %s::timestamptz[])
on conflict (path) do update
  set hash = excluded.hash, size = excluded.size, mtime = excluded.mtime, scanned_at = now()
"""
REMOVE = "delete from files where source = 'memory' and path = any(%s)"

Item = TypeVar("Item")

BATCH = 500
PATIENCE = timedelta(seconds=10)


class PostgresFiles:
    """``Files`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def hashes(self) -> Mapping[str, str]:
        """See ``Files.hashes``."""
        return dict(await self._database.rows(HASHES, patience=PATIENCE))

    async def put(self, files: Sequence[KnownFile]) -> None:
        """See ``Files.put``."""
        for some in _batches(files):
            columns = (
                [file.path for file in some],
                [file.hash for file in some],
                [file.size for file in some],
                [file.mtime for file in some],
            )
            await self._database.rows(PUT, columns, patience=PATIENCE)

    async def remove(self, paths: Collection[str]) -> None:
        """See ``Files.remove``."""
        for some in _batches(sorted(paths)):
            await self._database.rows(REMOVE, (list(some),), patience=PATIENCE)


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))
