"""What Telegram takes of a file, and how it is called there."""

from dataclasses import dataclass, field
from typing import Final

from shared.domain.outgoing_file import LARGEST_FILE, LARGEST_PHOTO, OutgoingFile, ShownAs

ENDINGS: Final = {
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/webp": ".webp",
    "image/gif": ".gif",
    "audio/ogg": ".ogg",
    "audio/mpeg": ".mp3",
    "audio/mp4": ".m4a",
    "video/mp4": ".mp4",
    "application/pdf": ".pdf",
    "text/plain": ".txt",
    "text/markdown": ".md",
}
"""For what came without a name: people's programs go by the ending."""


@dataclass(frozen=True, slots=True)
class FileToSend:
    """A file with its bytes. ``name`` is never empty; ``caption`` is the text below it."""

    name: str
    media_type: str
    shown_as: ShownAs
    caption: str
    data: bytes = field(repr=False)


def file_to_send(file: OutgoingFile, data: bytes) -> FileToSend | None:
    """The file as Telegram takes it: a photo that is too large is a document. ``None``: nothing so large goes there."""
    if len(data) > LARGEST_FILE:
        return None
    shown_as: ShownAs = "document" if file.shown_as == "photo" and len(data) > LARGEST_PHOTO else file.shown_as
    name = file.name or f"{shown_as}{ENDINGS.get(file.media_type, '')}"
    return FileToSend(name, file.media_type or "application/octet-stream", shown_as, file.caption, data)
