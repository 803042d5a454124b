"""Attachments as callers send them: base64 in JSON, or ``data:`` URLs; checked before anything is stored."""

import base64
import re
from collections.abc import Iterator, Sequence
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
_GAP = r"[\t\n\r ]*"
_SIX_BITS = rf"[A-Za-z0-9+/]{_GAP}"
_URL_HEAD = rf"data:{_TOKEN}/{_TOKEN}(?:;[^,;]{{0,200}}){{0,5}};base64,"
_BASE64 = (
    rf"^(?:{_URL_HEAD})?{_GAP}(?:(?:{_SIX_BITS}){{4}})*"
    rf"(?:(?:{_SIX_BITS}){{4}}|(?:{_SIX_BITS}){{3}}={_GAP}|(?:{_SIX_BITS}){{2}}={_GAP}={_GAP})$"
)
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
    data: Base64 = Field(
        description="Its bytes as base64, the standard alphabet, padded; with line breaks or as a `data:` URL, too."
    )
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
            _decoded(each.data, f"attachments[{position}]", limits.size, begin=_behind_head(each.data)),
            _base_name(each.filename or ""),
            each.is_voice,
        )
        for position, each in enumerate(given)
    )


def labels_of(given: Sequence[AttachmentBody]) -> str:
    """What stands in place of a text where there is none: the kinds of what came, as the original called them."""
    return "\n".join(dict.fromkeys(_label(each) for each in given))


def _label(given: AttachmentBody) -> str:
    if given.is_voice:
        return "[voice message]"
    return "[image]" if given.content_type.lower().startswith("image/") else "[attachment]"


def attachment_from_data_url(
    url: str, *, where: str = "the image", limits: AttachmentLimits | None = None
) -> Attachment:
    """The file in a ``data:`` URL with base64. Raises ``BadInput``; ``where`` is what its sentence calls the file."""
    head = _DATA_URL.match(url)
    if head is None:
        raise BadInput(f"{where} must be a data: URL with a media type and base64; nothing is fetched from elsewhere")
    data = _decoded(url, where, (limits or AttachmentLimits()).size, begin=head.end())
    return Attachment(head[1].lower(), data)


def _behind_head(data: str) -> int:
    head = _DATA_URL.match(data)
    return head.end() if head else 0


def _decoded(data: str, where: str, most: int, *, begin: int = 0) -> bytes:
    """What is encoded from ``begin`` on, piece by piece: in a thread of its own it lets others go on between them."""
    decoded: list[bytes] = []
    size, is_over = 0, False
    for piece in _quads(data, begin):
        if is_over or "=" in piece[:-2]:
            raise BadInput(f"{where} is not base64")
        try:
            decoded.append(base64.b64decode(piece, validate=True))
        except ValueError as fault:
            raise BadInput(f"{where} is not base64") from fault
        is_over = piece.endswith("=")
        size += len(decoded[-1])
        if size > most:
            raise BadInput(f"{where} is larger than {most} bytes")
    if not size:
        raise BadInput(f"{where} is empty")
    return b"".join(decoded)


def _quads(data: str, begin: int) -> Iterator[str]:
    """Pieces without white space; all but the last one have a length that can be divided by four."""
    rest = ""
    for start in range(begin, len(data), PIECE):
        piece = data[start : start + PIECE]
        for gap in "\r\n\t ":
            piece = piece.replace(gap, "")
        piece = rest + piece
        whole = len(piece) // 4 * 4
        piece, rest = piece[:whole], piece[whole:]
        if piece:
            yield piece
    if rest:
        yield rest


def _plain_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _base_name(filename: str) -> str:
    return filename.replace("\\", "/").rpartition("/")[2]
