"""An update of the Bot API as JSON, read into our words. Whatever comes, reading it does not fail."""

from collections.abc import Mapping
from typing import Any

from services.telegram_bridge.rules.place import Place
from services.telegram_bridge.rules.updates import ButtonPressed, OtherMessage, PassedOver, TextMessage, Update

CONTENT = (
    "photo", "voice", "audio", "video", "video_note", "document", "sticker", "animation", "location", "venue",
    "contact", "poll", "dice", "story", "paid_media", "checklist", "game",
)  # fmt: skip
"""What a person may send beside text; all else that has no text tells of the chat and not of the person."""


def read_updates(result: object) -> list[Update]:
    """All updates that have a number, in their order."""
    found = result if isinstance(result, list) else []
    return [_update(each, number) for each in found if (number := _number(each, "update_id")) is not None]


def _update(update: Mapping[str, Any], number: int) -> Update:
    match update:
        case {"message": dict(message)}:
            return _message(message, number)
        case {"callback_query": dict(press)}:
            return _press(press, number)
    return PassedOver(number, "kind")


def _message(message: Mapping[str, Any], number: int) -> Update:
    chat, sender = _part(message, "chat"), _part(message, "from")
    chat_id, sender_id = _number(chat, "id"), _number(sender, "id")
    if chat_id is None or sender_id is None or sender.get("is_bot") is True:
        return PassedOver(number, "nobody")
    if chat.get("type") != "private":
        return PassedOver(number, "group")
    topic = _number(message, "message_thread_id") if message.get("is_topic_message") is True else None
    place = Place(chat_id, topic)
    text = message.get("text")
    if isinstance(text, str) and text.strip():
        names = _text(sender, "username"), _text(sender, "first_name")
        return TextMessage(number, place, sender_id, *names, text, _number(message, "message_id"))
    kind = next((kind for kind in CONTENT if kind in message), None)
    if kind is None:
        return PassedOver(number, "nothing said")
    return OtherMessage(number, place, sender_id, kind, _text(message, "media_group_id") or None)


def _press(press: Mapping[str, Any], number: int) -> Update:
    name, data = _text(press, "id"), _text(press, "data")
    sender = _number(_part(press, "from"), "id")
    chat = _number(_part(_part(press, "message"), "chat"), "id")
    if not name or sender is None or chat is None:
        return PassedOver(number, "button")
    return ButtonPressed(number, name, chat, sender, data)


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _text(document: Mapping[str, Any], name: str) -> str:
    found = document.get(name)
    return found if isinstance(found, str) else ""


def _number(document: object, name: str) -> int | None:
    found = document.get(name) if isinstance(document, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and abs(found) < 2**63 else None
