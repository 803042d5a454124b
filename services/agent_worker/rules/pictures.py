"""Which images of a tool's result are kept, and how they stand in it. Pure."""

from collections.abc import Sequence
from hashlib import sha256
from uuid import UUID, uuid5

from services.agent_worker.rules.images import MOST_BYTES, MOST_IMAGES
from shared.domain.attachment import IMAGE_TYPES, Attachment
from shared.domain.chat import BlobBlock

MOST_LEFT_OUT = 5
"""So many that are left out are told of one by one."""


def kept_images(images: Sequence[Attachment], *, largest: int) -> tuple[list[int], str]:
    """The places of those that are kept, and lines about those that are not, each with a line break before it."""
    kept: list[int] = []
    lines: list[str] = []
    room = MOST_BYTES
    for place, image in enumerate(images):
        size = len(image.data)
        if image.content_type not in IMAGE_TYPES:
            why = "it is none that models can see"
        elif size > largest:
            why = f"it has {size} bytes, more than {largest}"
        elif len(kept) == MOST_IMAGES or size > room:
            why = f"a result has at most {MOST_IMAGES} images with {MOST_BYTES} bytes together"
        else:
            room -= size
            kept.append(place)
            continue
        lines.append(f"\n[image {place + 1} is not shown: {why}]")
    if (more := len(lines) - MOST_LEFT_OUT) > 0:
        lines[MOST_LEFT_OUT:] = [f"\n[{more} more images are not shown]"]
    return kept, "".join(lines)


def image_id(run: UUID, key: str, data: bytes) -> UUID:
    """The id under which an image of a call's result is stored. Another try of that call may give another image, and
    must not put it in place of one that a result refers to."""
    return uuid5(run, f"{key}:image:{sha256(data).hexdigest()}")


def image_block(id: UUID, image: Attachment) -> BlobBlock:
    """How it stands in the stored result."""
    size = len(image.data)
    return {
        "type": "blob",
        "id": str(id),
        "content_type": image.content_type,
        "filename": image.filename,
        "size": size,
        "text": f"[image of type {image.content_type}, {size} bytes]",
    }
