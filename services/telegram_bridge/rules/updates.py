"""What Telegram tells of, as far as the bridge understands it."""

from dataclasses import dataclass

from services.telegram_bridge.rules.place import Place


@dataclass(frozen=True, slots=True)
class TextMessage:
    """What a person wrote. ``username`` and ``first_name`` may be empty, and are whatever the person chose. ``message``
    is its number in the chat, and ``None`` where Telegram names none."""

    update: int
    place: Place
    sender: int
    username: str
    first_name: str
    text: str
    message: int | None = None


@dataclass(frozen=True, slots=True)
class OtherMessage:
    """What a person sent and the bridge can't take. ``album`` is the same for what was sent together."""

    update: int
    place: Place
    sender: int
    kind: str
    album: str | None = None


@dataclass(frozen=True, slots=True)
class ButtonPressed:
    """A button below one of our messages; ``press`` is answered once, ``data`` is what we put behind the button."""

    update: int
    press: str
    chat: int
    sender: int
    data: str


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Anything else; it is only counted as seen."""

    update: int
    why: str


Update = TextMessage | OtherMessage | ButtonPressed | PassedOver


@dataclass(frozen=True, slots=True)
class Button:
    """A button below a message; ``data`` comes back in ``ButtonPressed``, at most 64 bytes."""

    label: str
    data: str
