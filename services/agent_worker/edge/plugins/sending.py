"""Files that tools of plugins send to people."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol
from uuid import uuid5

from lucyd_plugin import FileToSend
from services.agent_worker.edge.tools.message import MOST_MESSAGES
from services.agent_worker.edge.tools.receivers import Receivers, may_reach_keyless
from services.agent_worker.ports import ToolFailed, ToolUse
from shared.domain.attachment import Attachment, ReadableText, blob_blocks
from shared.domain.outgoing_file import LARGEST_FILE, OutgoingFile, shown_as
from shared.ports.blobs import Blobs


class FileSender(Protocol):
    """Sends them in one transaction with the result of the call: what a worker dies over before is in doubt."""

    def check(self, to: str, use: ToolUse) -> None:
        """Look whether there is such a receiver. Raises ``ToolFailed``."""
        ...

    async def send(self, file: FileToSend, use: ToolUse) -> str:
        """Send it; what the model reads of it. Raises ``ToolFailed`` where nobody would get it, ``TryLater``."""
        ...


@dataclass(frozen=True, slots=True)
class PeopleAround:
    """``FileSender`` for whoever the run answers, with its reply, and for contacts, in their line."""

    receivers: Receivers
    blobs: Blobs
    deadline: timedelta
    capacity: int

    def check(self, to: str, use: ToolUse) -> None:
        """See ``FileSender.check``."""
        self.receivers.anybody(to, use)

    async def send(self, file: FileToSend, use: ToolUse) -> str:
        """See ``FileSender.send``."""
        receiver = self.receivers.anybody(file.to, use)
        if not 0 < len(file.data) <= LARGEST_FILE:
            raise ToolFailed(f"a file of {len(file.data)} bytes can't be sent")
        attachment = Attachment(file.content_type, file.data, file.filename, is_voice=file.is_voice)
        blob = uuid5(use.run_id, use.key)
        await self.blobs.keep(blob, use.run_id, attachment)
        if receiver.place is None:
            shown = shown_as(file.content_type, size=len(file.data), is_voice=file.is_voice)
            sent = OutgoingFile(blob, file.filename, file.content_type, len(file.data), shown)
            return await use.act("send_file", sent.document())
        (block,) = blob_blocks(use.run_id, [attachment], ReadableText(0))
        return await use.act(
            "message",
            {
                "name": receiver.name,
                "place": receiver.place,
                "text": "",
                "blocks": [{**block, "id": str(blob)}],
                "parts": [],
                "keyless": may_reach_keyless(use),
                "most": MOST_MESSAGES,
                "capacity": self.capacity,
                "seconds": self.deadline.total_seconds(),
            },
        )
