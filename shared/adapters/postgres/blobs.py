"""The bytes of attachments: the table ``blobs``."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from shared.adapters.postgres.pool import Database
from shared.domain.attachment import Attachment

LOAD = "select id, data from blobs where id = any(%s)"
KEEP = "select lucyd_keep_blob(%s, %s, %s, %s, %s, %b)"
PATIENCE = timedelta(seconds=30)
"""They are megabytes, and a run waits for them that can do nothing without."""


class PostgresBlobs:
    """``Blobs`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keep(self, id: UUID, run: UUID, attachment: Attachment) -> None:
        """See ``Blobs.keep``."""
        given = (id, run, attachment.content_type, attachment.filename, attachment.is_voice, attachment.data)
        await self._database.value(KEEP, given, patience=PATIENCE)

    async def load(self, ids: Sequence[UUID]) -> Mapping[UUID, bytes]:
        """See ``Blobs.load``."""
        rows = await self._database.rows(LOAD, (list(ids),), patience=PATIENCE)
        return {id: bytes(data) for id, data in rows}
