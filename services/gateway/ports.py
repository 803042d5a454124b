"""What only the gateway needs: a look at what the processes say of themselves, and the way out for webhooks."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Protocol

from services.gateway.rules.webhook_verdict import Receipt
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


class Courier(Protocol):
    """Carries webhooks to one receiver."""

    async def deliver(self, webhook: Webhook) -> Receipt:
        """Try once, bounded in time; never raises for what the receiver or the way to it did."""
        ...
