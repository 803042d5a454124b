"""Prepared messages, without a Postgres."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from shared.adapters.inmemory.tables import Tables, as_json
from shared.domain.chat import ContentBlock
from shared.errors import LostClaim


class InMemoryPreparedMessages:
    """``PreparedMessages`` of the ports."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def keep(
        self,
        conversation: str,
        *,
        worker: UUID,
        epoch: int,
        run: UUID,
        blob: UUID,
        content: Sequence[ContentBlock],
    ) -> None:
        """See ``PreparedMessages.keep``."""
        await asyncio.sleep(0)
        owned = self._tables.conversations[conversation]
        if owned.epoch != epoch or owned.owner != worker or self._tables.runs[run].state != "running":
            raise LostClaim(conversation)
        for row in self._tables.messages:
            said = row.body
            if row.run != run or said["role"] != "user" or "prepared" in said or isinstance(said["content"], str):
                continue
            if any(block["type"] == "blob" and block["id"] == str(blob) for block in said["content"]):
                row.body = {**said, "content": as_json(list(content)), "prepared": True}
