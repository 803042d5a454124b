"""The bytes of attachments, without a Postgres."""

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

from shared.adapters.inmemory.rows import BlobRow
from shared.adapters.inmemory.tables import Tables
from shared.domain.attachment import Attachment


class InMemoryBlobs:
    """``Blobs`` of the ports."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def keep(self, id: UUID, run: UUID, attachment: Attachment) -> None:
        """See ``Blobs.keep``."""
        await asyncio.sleep(0)
        tables = self._tables
        files = [
            *tables.reply_files.get(run, ()),
            *(row.body["file"] for row in tables.deliveries if "file" in row.body),
        ]
        moved = id in tables.blobs and tables.blobs[id].run != run
        if not moved and not any(file["blob"] == str(id) for file in files):
            self._tables.blobs[id] = BlobRow(id, run, attachment.data)

    async def load(self, ids: Sequence[UUID]) -> Mapping[UUID, bytes]:
        """See ``Blobs.load``."""
        await asyncio.sleep(0)
        return {id: self._tables.blobs[id].data for id in ids if id in self._tables.blobs}
