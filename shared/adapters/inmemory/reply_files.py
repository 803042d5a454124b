"""Files of replies without a Postgres, and the act that sends them; see ``0020_files_out.sql``."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID

from shared.adapters.inmemory.acts import Doing
from shared.adapters.inmemory.tables import Tables
from shared.errors import TryLater
from shared.ports.reply_files import PIECE, ReplyFile

MOST = 10


def sending(tables: Tables) -> Doing:
    """The act ``send_file``."""

    def send_file(context: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        run = UUID(context["run"])
        if run in tables.children:
            return {"error": "a sub-agent has nobody to send files to; say in your answer where the file is"}
        files = tables.reply_files.setdefault(run, [])
        if len(files) >= MOST:
            return {"error": f"this reply has {MOST} files already, and may not have more"}
        files.append(dict(arguments))
        return {"text": f"Attached {arguments['name']}: it goes out with your reply."}

    return send_file


class InMemoryReplyFiles:
    """``ReplyFiles`` of the ports."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def file(self, run: UUID, number: int) -> ReplyFile | None:
        """See ``ReplyFiles.file``."""
        await asyncio.sleep(0)
        row = self._tables.runs.get(run)
        if row is None or "attachments" not in (row.outcome or {}):
            return None
        files = self._tables.reply_files.get(row.merged_into or row.id, [])
        if not 1 <= number <= len(files):
            return None
        file = files[number - 1]
        blob = UUID(file["blob"])
        return ReplyFile(file["name"], file["media_type"], file["size"], blob, is_kept=blob in self._tables.blobs)

    async def pieces(self, file: ReplyFile) -> AsyncIterator[bytes]:
        """See ``ReplyFiles.pieces``."""
        for start in range(0, file.size, PIECE):
            await asyncio.sleep(0)
            row = self._tables.blobs.get(file.blob)
            if row is None:
                raise TryLater("the file went while it was read")
            yield row.data[start : start + PIECE]
