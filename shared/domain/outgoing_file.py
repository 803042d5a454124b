"""A file on its way to a person: what it is called, and how a channel is to show it. Its bytes are a blob."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args
from uuid import UUID

from shared.domain.attachment import IMAGE_TYPES, about
from shared.domain.chat import BlobBlock

ShownAs = Literal["photo", "voice", "audio", "video", "document"]
KINDS: tuple[ShownAs, ...] = get_args(ShownAs)

LARGEST_FILE = 50_000_000
"""Bytes; a bot of Telegram may send no larger one."""

LARGEST_PHOTO = 10_000_000
LONGEST_CAPTION = 1024
"""UTF-16 units of the text below a file, as Telegram counts."""

PHOTOS = IMAGE_TYPES - {"image/gif"}
"""A picture that moves would stand still as a photo."""

VOICES = frozenset({"audio/ogg", "audio/opus", "audio/mpeg", "audio/mp3", "audio/mp4", "audio/x-m4a", "audio/m4a"})
AUDIOS = frozenset({"audio/mpeg", "audio/mp3", "audio/mp4", "audio/x-m4a", "audio/m4a"})
VIDEOS = frozenset({"video/mp4"})


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """One file that goes out. ``caption`` is the text below it; ``name`` may be empty."""

    blob: UUID
    name: str
    media_type: str
    size: int
    shown_as: ShownAs
    caption: str = ""

    def document(self) -> dict[str, Any]:
        """How it stands where the bytes do not: in a delivery, and in what a tool asks to be sent."""
        return {
            "blob": str(self.blob),
            "name": self.name,
            "media_type": self.media_type,
            "size": self.size,
            "as": self.shown_as,
        }

    def body(self) -> dict[str, Any]:
        """The body of the delivery that brings it."""
        return {"text": self.caption, "file": self.document()}


def file_of(body: Mapping[str, Any]) -> OutgoingFile | None:
    """The file that the body of a delivery brings; one that newer code shows in another way is a document."""
    match body.get("file"):
        case {"blob": str(blob), "name": str(name), "media_type": str(media_type), "size": int(size), "as": asked}:
            shown: ShownAs = next((kind for kind in KINDS if kind == asked), "document")
            return OutgoingFile(UUID(blob), name, media_type, size, shown, str(body.get("text", "")))
    return None


def shown_as(media_type: str, *, size: int, is_voice: bool = False) -> ShownAs:
    """How a channel is to show a file: as what it can show, and all else as a document."""
    if is_voice and media_type in VOICES:
        return "voice"
    if media_type in PHOTOS and size <= LARGEST_PHOTO:
        return "photo"
    if media_type in AUDIOS:
        return "audio"
    return "video" if media_type in VIDEOS else "document"


def as_block(file: OutgoingFile) -> BlobBlock:
    """A file whose bytes are kept, as an attachment of a message that goes out."""
    kind = "image" if file.media_type in IMAGE_TYPES else "attachment"
    return {
        "type": "blob",
        "id": str(file.blob),
        "content_type": file.media_type,
        "filename": file.name,
        "size": file.size,
        "text": f"[{kind}: {about(file.name, file.media_type, file.size)}]",
    }


def outgoing(block: BlobBlock, *, is_voice: bool, caption: str = "") -> OutgoingFile:
    """An attachment of a message that goes out."""
    shown = shown_as(block["content_type"], size=block["size"], is_voice=is_voice)
    return OutgoingFile(UUID(block["id"]), block["filename"], block["content_type"], block["size"], shown, caption)


def fits_below(text: str) -> bool:
    """Whether a text may stand below a file."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2 <= LONGEST_CAPTION
