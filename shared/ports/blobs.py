"""The bytes of attachments, as messages refer to them."""

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from shared.domain.attachment import Attachment


class Blobs(Protocol):
    """Reads them, and keeps those of files that go out; what comes in is stored with its message."""

    async def keep(self, id: UUID, run: UUID, attachment: Attachment) -> None:
        """Keep the bytes of a file that this run may come to send. Again under the same id they are what they are then,
        unless it was sent. Raises ``TryLater``."""
        ...

    async def load(self, ids: Sequence[UUID]) -> Mapping[UUID, bytes]:
        """Those that are still there. Raises ``TryLater``."""
        ...
