"""Messages whose attachments were read before a model sees them."""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from shared.domain.chat import ContentBlock


class PreparedMessages(Protocol):
    """Keeps what was read out of attachments, in the place of what was said of them."""

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
        """Give the message of this run that refers to ``blob`` this content, and mark it as prepared.

        One that is prepared already stays as it is. Raises ``LostClaim``, with nothing changed, and ``TryLater``.
        """
        ...
