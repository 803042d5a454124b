"""Which messages are to be prepared, and how one stands afterwards."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from shared.domain.chat import BlobBlock, ContentBlock, Message, UserMessage


@dataclass(frozen=True, slots=True)
class Part:
    """A text and what came with it; several when messages were merged."""

    text: str
    blobs: tuple[BlobBlock, ...]


def unprepared(message: Message) -> UserMessage | None:
    """The message, if something came with it and it was not prepared yet."""
    if message["role"] != "user" or isinstance(message["content"], str) or message.get("prepared"):
        return None
    return message if any(block["type"] == "blob" for block in message["content"]) else None


def parts_of(content: Sequence[ContentBlock]) -> list[Part]:
    """Each text with the attachments that follow it."""
    return [Part(text, tuple(blobs)) for text, blobs in _grouped(content)]


def first_blob(message: UserMessage) -> UUID:
    """By which the stored row is found."""
    content = message["content"]
    assert not isinstance(content, str)  # noqa: S101 - unprepared messages have blocks
    return UUID(next(block["id"] for block in content if block["type"] == "blob"))


def content_of(parts: Sequence[tuple[Part, str, Collection[str]]]) -> list[ContentBlock]:
    """Parts as they were prepared: each with its new text, and without the attachments that were taken."""
    content: list[ContentBlock] = []
    for part, text, taken in parts:
        content.append({"type": "text", "text": text})
        content += [block for block in part.blobs if block["id"] not in taken]
    return content


def _grouped(content: Sequence[ContentBlock]) -> Iterator[tuple[str, list[BlobBlock]]]:
    text, blobs = "", list[BlobBlock]()
    begun = False
    for block in content:
        if block["type"] == "blob":
            blobs.append(block)
            begun = True
        elif block["type"] == "text":
            if begun:
                yield text, blobs
            text, blobs, begun = block["text"], [], True
    if begun:
        yield text, blobs
