"""Sending a file to the person that the agent answers."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid5

from services.agent_worker.edge.tools.paths import FILE_PATH, AllowedPaths
from services.agent_worker.edge.tools.real_files import file_errors, open_file
from services.agent_worker.ports import ToolFailed, ToolUse
from services.agent_worker.rules.media_types import media_type
from shared.domain.attachment import Attachment
from shared.domain.effect import ToolSpec
from shared.domain.outgoing_file import LARGEST_FILE, OutgoingFile, shown_as
from shared.ports.blobs import Blobs

AT_ONCE = 2
"""Each may be tens of megabytes."""

LONGEST_NAME = 200

_SPEC = ToolSpec(
    name="send_file",
    description=(
        f"Send a file to the person you answer: it goes out with your reply, up to {LARGEST_FILE // 1_000_000} MB. "
        "Images, audio and video are shown as such where that is possible."
    ),
    input_schema={
        "type": "object",
        "properties": {"file_path": FILE_PATH},
        "required": ["file_path"],
    },
    effect="local",
)


class SendFileTool:
    """Sends files of the allowed folders, as they are when the tool is called: what is changed later changes nothing.

    The bytes are kept first, and nobody knows of them; the act that follows sends them.
    """

    def __init__(self, paths: AllowedPaths, blobs: Blobs) -> None:
        self._paths = paths
        self._blobs = blobs
        self._turn = asyncio.Semaphore(AT_ONCE)

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """Send it. Raises ``ToolFailed`` where the file can't be had, is empty or too large, or nobody would get it."""
        async with self._turn:
            path, data = await asyncio.to_thread(self._read, arguments["file_path"])
            name = _name(path)
            kind = media_type(name, data)
            file = OutgoingFile(uuid5(use.run_id, use.key), name, kind, len(data), shown_as(kind, size=len(data)))
            await self._blobs.keep(file.blob, use.run_id, Attachment(kind, data, name))
        return await use.act("send_file", file.document())

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
