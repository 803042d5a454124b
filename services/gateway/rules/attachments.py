"""Attachments as callers send them: base64 in JSON, or ``data:`` URLs; checked before anything is stored."""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from services.gateway.rules.request_body import FIRST_ONLY, RequestBody
from shared.domain.attachment import Attachment
from shared.errors import BadInput

LONGEST_FILENAME = 200
PIECE = 1_048_576
_TOKEN = r"[A-Za-z0-9!#$&^_.+-]{1,100}"  # noqa: S105  (of RFC 9110, not a secret)
_MEDIA_TYPE = rf"{_TOKEN}/{_TOKEN}(?:;[ -~]{{0,200}})?"
_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)$"
_FILENAME = r"[^\u0000-\u001f\u007f-\u009f\ufffd]*"
_DATA_URL = re.compile(rf"data:({_TOKEN}/{_TOKEN})(?:;[^,;]{{0,200}}){{0,5}};base64,", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AttachmentLimits:
    """How many attachments one message may have, and how many bytes each, once it is decoded."""

    count: int = 10
    size: int = 10_485_760


def _media_type(text: str) -> str:
    if not re.fullmatch(_MEDIA_TYPE, text):
        raise ValueError("must be a media type, such as image/png")
    return text


def _name(text: str) -> str:
    if len(text) > LONGEST_FILENAME or not re.fullmatch(_FILENAME, text):
        raise ValueError(f"must be at most {LONGEST_FILENAME} characters, without control characters")
    return text


MediaType = Annotated[str, AfterValidator(_media_type), Field(json_schema_extra={"pattern": f"^{_MEDIA_TYPE}$"})]
Base64 = Annotated[str, Field(json_schema_extra={"pattern": _BASE64, "contentEncoding": "base64"})]
Filename = Annotated[
    str,
    AfterValidator(_name),
    Field(json_schema_extra={"maxLength": LONGEST_FILENAME, "pattern": f"^{_FILENAME}$"}),
]


class AttachmentBody(RequestBody):
    """One file of a message."""

    content_type: MediaType = Field(description="Its media type.")
    data: Base64 = Field(description="Its bytes as base64: the standard alphabet, padded, without line breaks.")
    filename: Filename | None = Field(None, description="What it is called.")
    is_voice: bool = Field(default=False, description="Whether it is a voice message.")


Attachments = Annotated[
    list[AttachmentBody], FIRST_ONLY, Field(json_schema_extra={"maxItems": AttachmentLimits().count})
]
"""As many as the operator allows; the schema says how many that are where nothing else is configured."""


def read_attachments(given: Sequence[AttachmentBody] | None, limits: AttachmentLimits) -> tuple[Attachment, ...]:
    """The files, decoded. Raises ``BadInput``, which names the one that can't be taken."""
    given = given or ()
    if len(given) > limits.count:
        raise BadInput(f"a message may have at most {limits.count} attachments, and this one has {len(given)}")
    return tuple(
        Attachment(
            _plain_type(each.content_type),
            _decoded(each.data, f"attachments[{position}]", limits.size),
            _base_name(each.filename or ""),
            each.is_voice,
        )
        for position, each in enumerate(given)
    )


def attachment_from_data_url(
    url: str, *, where: str = "the image", limits: AttachmentLimits | None = None
) -> Attachment:
    """The file in a ``data:`` URL with base64. Raises ``BadInput``; ``where`` is what its sentence calls the file."""
    head = _DATA_URL.match(url)
    if head is None:
        raise BadInput(f"{where} must be a data: URL with a media type and base64; nothing is fetched from elsewhere")
    data = _decoded(url[head.end() :], where, (limits or AttachmentLimits()).size)
    return Attachment(head[1].lower(), data)


def check_count(attachments: Sequence[Attachment], limits: AttachmentLimits) -> None:
    """Raises ``BadInput`` when these are too many for one message."""
    if len(attachments) > limits.count:
        raise BadInput(f"a message may have at most {limits.count} attachments, and this one has {len(attachments)}")


def _decoded(data: str, where: str, most: int) -> bytes:
    if len(data) // 4 * 3 - 2 > most:  # before any memory is spent on it
        raise BadInput(f"{where} is larger than {most} bytes")
    try:
        # Piece by piece: in a thread of its own it lets others go on between them.
        pieces = (data[start : start + PIECE] for start in range(0, len(data), PIECE))
        decoded = b"".join(base64.b64decode(piece, validate=True) for piece in pieces)
    except ValueError as fault:
        raise BadInput(f"{where} is not base64") from fault
    if not decoded or len(data) % 4 or "=" in data[:-2]:
        raise BadInput(f"{where} is {'empty' if not decoded else 'not base64'}")
    if len(decoded) > most:
        raise BadInput(f"{where} is larger than {most} bytes")
    return decoded


def _plain_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _base_name(filename: str) -> str:
    return filename.replace("\\", "/").rpartition("/")[2]
