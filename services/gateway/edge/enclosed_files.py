"""The bytes of small files within the reply they came with, where the original's clients look for them."""

import base64
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from shared.errors import TryLater
from shared.ports.reply_files import ReplyFiles

MOST_ENCLOSED = 5_242_880
"""Bytes of all files of a reply together; what is beyond that is fetched."""


@dataclass(frozen=True, slots=True)
class EnclosedFiles:
    """Puts them there."""

    files: ReplyFiles

    async def put_into(self, reply: dict[str, Any]) -> None:
        """Give each of the ``attachments`` its ``data`` in base64, as long as they fit. What can't be had now stands
        without: its ``url`` does."""
        left = MOST_ENCLOSED
        for number, attachment in enumerate(reply.get("attachments") or (), start=1):
            if attachment["size"] > left:
                continue
            data = await self._read(UUID(reply["run_id"]), number)
            if data is not None:
                attachment["data"] = base64.b64encode(data).decode()
                left -= len(data)

    async def _read(self, run: UUID, number: int) -> bytes | None:
        try:
            file = await self.files.file(run, number)
            if file is None or not file.is_kept:
                return None
            return b"".join([piece async for piece in self.files.pieces(file)])
        except TryLater:
            return None
