"""Files of the allowed folders, kept as they are now, for a tool that is about to send them."""

import asyncio
import os
from pathlib import Path
from uuid import uuid5

from services.agent_worker.edge.tools.paths import AllowedPaths
from services.agent_worker.edge.tools.real_files import file_errors, open_file
from services.agent_worker.ports import ToolFailed, ToolUse
from services.agent_worker.rules.media_types import media_type
from shared.domain.attachment import Attachment
from shared.domain.outgoing_file import LARGEST_FILE, OutgoingFile, shown_as
from shared.ports.blobs import Blobs

AT_ONCE = 2
"""Each may be tens of megabytes."""

LONGEST_NAME = 200


class KeptFiles:
    """Reads files and keeps their bytes, each in a place of its call: who tries the call again finds the same place.

    Nobody knows of them until an act names them.
    """

    def __init__(self, paths: AllowedPaths, blobs: Blobs) -> None:
        self._paths = paths
        self._blobs = blobs
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def keep(self, text: str, use: ToolUse, *, number: int = 0) -> OutgoingFile:
        """The file at this path, the one of this number in its call. Raises ``ToolFailed`` where it can't be had, is
        empty or too large, and ``TryLater``."""
        async with self._turn:
            path, data = await asyncio.to_thread(self._read, text)
            name = _name(path)
            kind = media_type(name, data)
            blob = uuid5(use.run_id, f"{use.key}:{number}")
            await self._blobs.keep(blob, use.run_id, Attachment(kind, data, name))
        return OutgoingFile(blob, name, kind, len(data), shown_as(kind, size=len(data)))

    def _read(self, text: str) -> tuple[Path, bytes]:
        path = self._paths.resolve(text)
        with file_errors(path), open_file(path) as stream:
            if os.fstat(stream.fileno()).st_size > LARGEST_FILE:
                raise ToolFailed(_too_large(path))
            data = stream.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise ToolFailed(_too_large(path))
        if not data:
            raise ToolFailed(f"The file is empty: {path}")
        return path, data


def _too_large(path: Path) -> str:
    return f"The file is larger than {LARGEST_FILE // 1_000_000} MB, and can't be sent: {path}"


def _name(path: Path) -> str:
    """What the file is called where it goes; a name may be bytes that are no text."""
    name = path.name.encode("utf-8", "replace").decode()
    return "".join(sign if sign.isprintable() else "_" for sign in name)[-LONGEST_NAME:]
