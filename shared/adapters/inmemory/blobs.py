"""The bytes of attachments, without a Postgres."""

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

from shared.adapters.inmemory.tables import Tables


class InMemoryBlobs:
    """``Blobs`` of the ports."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def load(self, ids: Sequence[UUID]) -> Mapping[UUID, bytes]:
        """See ``Blobs.load``."""
        await asyncio.sleep(0)
        return {id: self._tables.blobs[id].data for id in ids if id in self._tables.blobs}
