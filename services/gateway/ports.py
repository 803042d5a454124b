"""What only the gateway needs: a look at what the processes say of themselves, and the way out for webhooks."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

from services.gateway.rules.webhook_verdict import Receipt
from shared.domain.delivery import Dispatch
from shared.domain.run import Address, IdempotencyKey, Settlement
from shared.ports.records import Whose
from shared.ports.webhooks import Webhook

Ready = Callable[[], Awaitable[tuple[bool, Mapping[str, str]]]]
"""Whether this process can do its work, and each of its checks with ``ok`` or what is wrong."""


class MonitorBoard(Protocol):
    """The monitor keys, as they are now."""

    async def sessions(self) -> Sequence[Mapping[str, str]]:
        """What is going on in conversations. Raises ``TryLater``."""
        ...

    async def processes(self) -> Sequence[Mapping[str, str]]:
        """The processes that live. Raises ``TryLater``."""
        ...


class Stock(Protocol):
    """Knows figures about the whole."""

    async def figures(self) -> Mapping[str, Mapping[str, int | Decimal]]:
        """Figures by name and kind, the kinds being few. Within seconds; raises ``TryLater``."""
        ...


class Answers(Protocol):
    """Remembers what was answered to work that is no message, by its idempotency key."""

    async def begin(self, key: IdempotencyKey, id: UUID) -> tuple[UUID, Mapping[str, Any] | None]:
        """The id that the work goes by: ``id`` for who comes first, and that same one for whoever comes again; and
        what was answered, if it was.

        Raises ``Conflict`` when the key came with another body, and ``TryLater``.
        """
        ...

    async def end(self, key: IdempotencyKey, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """It is answered so, unless it was answered before: then as it was. Raises ``TryLater``."""
        ...


class Outbox(Protocol):
    """What people are told without having asked. All raise ``TryLater``."""

    async def places(self, channel: str, chat: str | None, whose: Whose, *, limit: int) -> Sequence[str]:
        """Conversations of a channel that ``chat`` names: a chat's id, or a key; ``None``: all."""
        ...

    async def address(self, conversation: str) -> Address | None:
        """Whose it is, and over which channel; ``None``: there is no such conversation."""
        ...

    async def is_led(self, channel: str) -> bool:
        """Whether a bridge that lives would send what goes out there."""
        ...

    async def dispatch(self, run: UUID) -> Dispatch | None:
        """How it stands with what this run tells a person; ``None``: nobody has accepted it."""
        ...


class Ledger(Protocol):
    """Where calls are booked that belong to no run."""

    async def settle(self, settlement: Settlement) -> None:
        """A call was made. Again with the same call id does nothing. Raises ``TryLater``."""
        ...


class Courier(Protocol):
    """Carries webhooks to one receiver."""

    async def deliver(self, webhook: Webhook) -> Receipt:
        """Try once, bounded in time; never raises for what the receiver or the way to it did."""
        ...
