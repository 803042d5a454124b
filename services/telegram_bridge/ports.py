"""What the bridge needs of Telegram, in our words, and what it remembers of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from services.telegram_bridge.rules.files import FileToSend
from services.telegram_bridge.rules.place import Place
from services.telegram_bridge.rules.updates import Button, Update
from shared.domain.delivery import Reaction
from shared.errors import GiveUp, LucydError


class TokenRefused(GiveUp):
    """Telegram does not know this bot token."""


class Refused(GiveUp):
    """Telegram refused this one request for good; the message says why."""


class Unclear(LucydError):
    """The request may have been carried out, and may not."""


@dataclass(frozen=True, slots=True)
class Bot:
    """The account that people write to; ``username`` without the ``@``."""

    id: int
    username: str


class Introduced(Protocol):
    """Whoever can say which bot a token belongs to."""

    async def me(self) -> Bot:
        """Who the token belongs to. Raises ``TokenRefused``, ``TryLater``."""
        ...


class BotAccount(Introduced, Protocol):
    """The bot as Telegram sees it. All raise ``TokenRefused``, and ``TryLater`` when Telegram did certainly nothing."""

    async def updates(self, *, offset: int | None, wait: timedelta) -> Sequence[Update]:
        """What came, from ``offset`` on, waiting at most ``wait`` for the first; all before it are forgotten there.

        ``None``: whatever is there. Raises ``TryLater`` for any fault: asking again is harmless.
        """
        ...

    async def send(self, place: Place, text: str, *, button: Button | None = None) -> str:
        """Send one message; its id. Raises ``Refused``, and ``Unclear`` when nobody can say whether it was sent."""
        ...

    async def send_file(self, place: Place, file: FileToSend) -> str:
        """Send one file as it is to be shown; its id. Raises as ``send`` does: ``Refused`` also where Telegram can't
        show it that way."""
        ...

    async def react(self, place: Place, reaction: Reaction) -> None:
        """Put a reaction below a message, in the place of the one that is there; doing it again changes nothing. Raises
        as ``send`` does."""
        ...

    async def answer_press(self, press: str, *, text: str) -> None:
        """Tell who pressed a button what came of it. Raises ``Refused``, ``Unclear``."""
        ...


class TelegramState(Protocol):
    """What the bridge remembers between its lives. All raise ``TryLater``."""

    async def mark(self, bot: int) -> tuple[int, timedelta] | None:
        """The first update that was not taken, and how long ago that was noted; ``None`` in the beginning."""
        ...

    async def remember(self, bot: int, next_update: int, *, bridge: UUID, epoch: int) -> bool:
        """All before ``next_update`` were taken. False: this bridge leads no more, and nothing was noted."""
        ...


class Pulse(Protocol):
    """How sure this process is to be counted among the living."""

    @property
    def age(self) -> timedelta:
        """How long ago the last confirmed beat was sent."""
        ...
