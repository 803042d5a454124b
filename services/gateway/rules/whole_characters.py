"""JSON with halves of characters in it, made whole: programs that cut a text within an emoji send such bodies.

It is one look over the bytes, whatever is sent: nothing is read twice, and who fills a body with halves is told so.
"""

import re

from shared.errors import BadInput

MOST = 200_000
"""Escaped halves in one body, those that belong together among them: a look at each costs 0.7 microseconds."""

TOO_MANY = "the body holds too many halves of characters"

_MARK = b"\xef\xbb\xbf"
_REPLACED = b"\\ufffd"
_RAW = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
"""Half a character as UTF-8 would write it, if it might."""

_ESCAPED = re.compile(rb"(?<!\\)\\++u[dD][89a-fA-F][0-9a-fA-F]{2}")
"""With all backslashes before it, for only an odd one begins an escape; from the first of a run or not at all, so that
a long one is looked at once."""

_LENGTH = 6
_FIRST_HALVES = frozenset(b"89abAB")


def with_whole_characters(body: bytes | bytearray) -> bytes | None:
    """The same JSON with each half that stands alone replaced by U+FFFD, and without a byte order mark.

    ``None`` when there is nothing of that kind in it. Raises ``BadInput`` when there is too much of it.
    """
    given = bytes(body)
    whole, raw = _RAW.subn(b"\xef\xbf\xbd", given.removeprefix(_MARK), count=MOST + 1)
    if raw > MOST:
        raise BadInput(TOO_MANY)
    alone = _alone(whole)
    if not alone:
        return whole if whole != given else None
    pieces: list[bytes] = []
    done = 0
    for at in alone:
        pieces += (whole[done:at], _REPLACED)
        done = at + _LENGTH
    return b"".join([*pieces, whole[done:]])


def _alone(body: bytes) -> list[int]:
    """Where escaped halves begin that have no other half."""
    alone: list[int] = []
    first: int | None = None
    for count, found in enumerate(_ESCAPED.finditer(body)):
        if count >= MOST:
            raise BadInput(TOO_MANY)
        at = found.end() - _LENGTH
        if (at - found.start()) % 2:
            continue  # its backslash is itself escaped: a text about escapes
        is_first = body[at + 3] in _FIRST_HALVES
        if first is not None:
            if not is_first and at == first + _LENGTH:
                first = None
                continue
            alone.append(first)
            first = None
        if is_first:
            first = at
        else:
            alone.append(at)
    return alone if first is None else [*alone, first]
