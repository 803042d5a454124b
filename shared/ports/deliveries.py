"""What goes out on one channel, kept where it can't be lost: claimed before it is sent, settled by who claimed it."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Literal, Protocol
from uuid import UUID

from shared.domain.delivery import Delivery

Again = Literal["again", "used", "unknown"]


class Deliveries(Protocol):
    """The deliveries of one channel. Each settling tells whether this claim was the one to settle; safe to call again.

    All raise ``TryLater`` when Postgres is away.
    """

    async def lead(self, bridge: UUID) -> int | None:
        """Lead the channel from here on; the epoch to claim under.

        ``None``: another bridge leads that is alive and does not drain, or this one was fenced or drains.
        """
        ...

    async def claim(
        self, *, bridge: UUID, epoch: int, in_hand: Collection[UUID], limit: int
    ) -> Sequence[Delivery] | None:
        """Take what is due, one delivery of each conversation at most and in its order; ``None``: no longer the leader.

        ``in_hand`` are the ids that this bridge has not settled yet. What else it is said to be sending was claimed by
        a call whose answer got lost, and is due again.
        """
        ...

    async def sent(self, delivery: Delivery, *, external_id: str) -> bool:
        """The channel has it, and knows it by ``external_id``. Also for what was put in doubt meanwhile."""
        ...

    async def put_off(self, delivery: Delivery, *, after: timedelta, reason: str) -> bool:
        """It was certainly not sent, and is due again after so long."""
        ...

    async def fail(self, delivery: Delivery, *, reason: str) -> bool:
        """It was refused for good."""
        ...

    async def doubt(self, delivery: Delivery, *, reason: str) -> bool:
        """Nobody can say whether it was sent. A notice that offers to send it again follows, unless it is a notice."""
        ...

    async def doubt_abandoned(self) -> int:
        """The same for all that bridges were sending which live no more; how many."""
        ...

    async def again(self, notice: UUID, *, place: str) -> Again:
        """Make due again what this notice is about; ``used``: that was asked before, or is settled.

        ``unknown``: there is no such notice in ``place``, a conversation or all conversations of a chat.
        """
        ...

    async def notice(self, id: UUID, conversation: str, *, text: str) -> bool:
        """Say something that belongs to no run; the same id says it once. True when it was new."""
        ...
