"""What the bridge needs of Telegram, in our words."""

from dataclasses import dataclass
from typing import Protocol

from shared.errors import GiveUp


class TokenRefused(GiveUp):
    """Telegram does not know this bot token."""


@dataclass(frozen=True, slots=True)
class Bot:
    """The account that people write to; ``username`` without the ``@``."""

    id: int
    username: str


class BotAccount(Protocol):
    """The bot as Telegram sees it."""

    async def me(self) -> Bot:
        """Who the token belongs to. Raises ``TokenRefused``, and ``TryLater`` when Telegram can't be asked now."""
        ...
