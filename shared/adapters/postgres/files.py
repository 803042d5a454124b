"""The tables of workspace files and of their chunks."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

from shared.adapters.postgres.pool import Database
from shared.ports.files import Chunk, KnownFile

HASHES = "select path, case when chunking = %s then hash else '' end from files where source = 'memory'"
PUT = "select lucyd_put_file(%s, %s, %s, %s, %s, %s::integer[], %s::integer[], %s::text[], %s::text[])"
REMOVE = "delete from files where source = 'memory' and path = any(%s)"

Item = TypeVar("Item")

BATCH = 500
PATIENCE = timedelta(seconds=10)
LARGE = timedelta(seconds=60)
"""A file may have megabytes, all of whose words are indexed."""


class PostgresFiles:
    """``Files`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def hashes(self, *, chunking: str) -> Mapping[str, str]:
        """See ``Files.hashes``."""
        return dict(await self._database.rows(HASHES, (chunking,), patience=PATIENCE))

    async def put(self, file: KnownFile, chunks: Sequence[Chunk], *, chunking: str) -> None:
        """See ``Files.put``. NUL, which no text of Postgres holds, is U+FFFD there."""
        columns = (
            [chunk.start_line for chunk in chunks],
            [chunk.end_line for chunk in chunks],
            [chunk.id for chunk in chunks],
            [chunk.text.replace("\0", "\N{REPLACEMENT CHARACTER}") for chunk in chunks],
        )
        about = (file.path, file.hash, file.size, file.mtime, chunking)
        await self._database.rows(PUT, (*about, *columns), patience=LARGE)

    async def remove(self, paths: Collection[str]) -> None:
        """See ``Files.remove``."""
        for some in _batches(sorted(paths)):
            await self._database.rows(REMOVE, (list(some),), patience=PATIENCE)


def _batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))
