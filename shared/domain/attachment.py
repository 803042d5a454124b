"""What comes with a message beside its text, and how it is told to a model in words."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid5

from shared.domain.chat import BlobBlock

TEXT_TYPES = frozenset(
    {
        "application/json",
        "application/x-ndjson",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/javascript",
        "application/sql",
        "application/x-sh",
    }
)
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
VOICE = "voice message that can't be heard yet"
UNREADABLE = "\N{REPLACEMENT CHARACTER}"
CUT = "[... the rest of the document is not shown ...]"


@dataclass(frozen=True, slots=True)
class Attachment:
    """One file of a message. ``content_type`` is a media type without parameters; ``filename`` may be empty."""

    content_type: str
    data: bytes = field(repr=False)
    filename: str = ""
    is_voice: bool = False


@dataclass(frozen=True, slots=True)
class ReadableText:
    """Which documents are read to the model: text types, and names with these ``endings``; so many ``characters`` of
    all documents of a message together, 0 for none."""

    characters: int = 30_000
    endings: frozenset[str] = frozenset()


def blob_id(run: UUID, position: int) -> UUID:
    """The id under which a run's attachment is stored: the same for every try to accept it."""
    return uuid5(run, str(position))


def image_type(data: bytes) -> str | None:
    """The type of an image that models can see, by its first bytes: what a caller says of it is wrong too often, and
    a provider refuses the whole request then."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None


def is_image(block: BlobBlock) -> bool:
    """Whether a model that sees can be shown this."""
    return block["content_type"] in IMAGE_TYPES


def is_voice(block: BlobBlock) -> bool:
    """Whether somebody said this, as the words about it tell."""
    return block["text"].startswith(f"[{VOICE}")


def blob_blocks(run: UUID, attachments: Sequence[Attachment], readable: ReadableText) -> list[BlobBlock]:
    """How a run's attachments stand in its message: by reference, with what is said of them in words."""
    left = readable.characters
    blocks: list[BlobBlock] = []
    for position, attachment in enumerate(attachments):
        seen = None if attachment.is_voice else image_type(attachment.data)
        content_type = seen or _not_an_image(attachment.content_type)
        text = f"[{_kind(attachment, seen)}: {about(attachment.filename, content_type, len(attachment.data))}]"
        if seen is None and left > 0 and _is_text(attachment, readable):
            whole = attachment.data[: 4 * left + 4].decode("utf-8-sig", "replace").replace("\0", UNREADABLE)
            words = whole[:left] if len(whole) <= left else f"{whole[:left]}\n{CUT}"
            text = f"{text.replace('[attachment:', '[document:', 1)}\n{words}"
            left -= len(whole[:left])
        blocks.append(
            {
                "type": "blob",
                "id": str(blob_id(run, position)),
                "content_type": content_type,
                "filename": attachment.filename,
                "size": len(attachment.data),
                "text": text,
            }
        )
    return blocks


def line_of(block: BlobBlock) -> str:
    """What is said of an attachment, without what stands in it."""
    return block["text"].split("\n", 1)[0]


def told_line(block: BlobBlock) -> str:
    """The same of what we say ourselves: nobody need hear it to know."""
    return line_of(block).replace(VOICE, "voice message", 1)


def _kind(attachment: Attachment, seen: str | None) -> str:
    if attachment.is_voice:
        return VOICE
    return "image" if seen else "attachment"


def _not_an_image(content_type: str) -> str:
    """Under a type that models see stands only what they can see."""
    return "application/octet-stream" if content_type.startswith("image/") else content_type


def about(filename: str, content_type: str, size: int) -> str:
    """What is said of a file in words."""
    amount = f"{size} bytes" if size < 1000 else f"{size / 1e3:.0f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"
    return ", ".join(part for part in (filename, content_type, amount) if part)


def _is_text(attachment: Attachment, readable: ReadableText) -> bool:
    if attachment.is_voice or b"\0" in attachment.data[:4096]:
        return False
    name, content_type = attachment.filename.lower(), attachment.content_type
    by_name = any(name.endswith(ending) for ending in readable.endings)
    return content_type.startswith("text/") or content_type in TEXT_TYPES or content_type.endswith("+json") or by_name
