"""Files of replies over Postgres: what an outcome names, and the bytes behind it."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

from shared.adapters.postgres.pool import Database
from shared.errors import TryLater
from shared.ports.reply_files import PIECE, ReplyFile

FILE = """
select f.file ->> 'name', f.file ->> 'media_type', (f.file ->> 'size')::integer, (f.file ->> 'blob')::uuid,
       b.id is not null
from runs r join reply_files f on f.run = coalesce(r.merged_into, r.id) and f.position = %s
left join blobs b on b.id = (f.file ->> 'blob')::uuid
where r.id = %s and r.outcome ? 'attachments'
"""
PIECE_OF = "select substring(data from %s for %s) from blobs where id = %s"
PATIENCE = timedelta(seconds=30)


class PostgresReplyFiles:
    """``ReplyFiles`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def file(self, run: UUID, number: int) -> ReplyFile | None:
        """See ``ReplyFiles.file``."""
        rows = await self._database.rows(FILE, (number, run))
        return ReplyFile(*rows[0]) if rows else None

    async def pieces(self, file: ReplyFile) -> AsyncIterator[bytes]:
        """See ``ReplyFiles.pieces``."""
        for start in range(1, file.size + 1, PIECE):
            piece = await self._database.value(PIECE_OF, (start, PIECE, file.blob), patience=PATIENCE)
            if piece is None:
                raise TryLater("the file went while it was read")
            yield bytes(piece)
