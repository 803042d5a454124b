"""The bytes of attachments, as messages refer to them."""

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID


class Blobs(Protocol):
    """Reads them; they are stored with the message that they came with."""

    async def load(self, ids: Sequence[UUID]) -> Mapping[UUID, bytes]:
        """Those that are still there. Raises ``TryLater``."""
        ...
