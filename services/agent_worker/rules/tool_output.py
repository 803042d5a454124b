"""A tool's result, made short enough for the model's window and fit to be stored."""

import json
import re
from dataclasses import dataclass
from typing import NoReturn

HEAD_SHARE = 0.7
"""How much of a cut text is its beginning; the rest is its end, where commands tell how they ended."""

CHARACTERS_PER_TOKEN = 4
WINDOW_SHARE = 0.25
"""No single result may fill more of the model's context window than this."""

_DEPTH = 8
"""Containers within containers that are still looked into: every level reads what is below it once more."""

_SPACE = re.compile(r"[ \t\n\r]*")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def output_limit(output_truncation: int, context_tokens: int) -> int:
    """How many characters a result may have: the operator's figure, at most a quarter of the window (0: unknown)."""
    if context_tokens <= 0:
        return output_truncation
    return min(output_truncation, int(context_tokens * CHARACTERS_PER_TOKEN * WINDOW_SHARE))


def storable(text: str) -> str:
    """The text without what neither Postgres nor UTF-8 can hold (NUL, lone surrogates), each replaced by U+FFFD."""
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def truncate(text: str, limit: int) -> str:
    """At most ``limit`` characters of the text, with a marker that tells how much is missing.

    One JSON list or object stays valid JSON: trailing elements go, also within the element at the cut, and every
    container that lost some ends with a marker that counts them. Any other text, and JSON of which not even one
    element fits, keeps its head and its tail.
    """
    if len(text) <= limit:
        return text
    return _truncated_json(text, limit) or _head_and_tail(text, limit)


def _head_and_tail(text: str, limit: int) -> str:
    # The marker is measured with the longest number it could carry, so the sum can only stay below the limit.
    room = limit - len(_cut_marker(len(text)))
    if room <= 0:
        return text[: max(limit, 0)]
    head = int(room * HEAD_SHARE)
    tail = room - head
    return text[:head] + _cut_marker(len(text) - room) + text[len(text) - tail :]


def _cut_marker(count: int) -> str:
    return f"\n... [{count} characters cut] ...\n"


@dataclass(frozen=True, slots=True)
class _Element:
    """Where one element of a container stands: from ``start`` (its key, in an object), its value from ``value``."""

    start: int
    value: int
    end: int


class _NotJson(ValueError):
    pass


def _refuse(constant: str) -> NoReturn:
    raise _NotJson(constant)  # NaN and Infinity, which JSON does not have


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _truncated_json(text: str, limit: int) -> str | None:
    """Works on the text itself instead of re-encoding values: numbers and escapes stay to the letter."""
    start = _skip(text, 0)
    if text[start : start + 1] not in {"[", "{"}:
        return None
    try:
        _, end = _DECODER.raw_decode(text, start)
        if _skip(text, end) != len(text):
            return None
        return _shrunk(text, start, limit, _DEPTH)
    except (ValueError, RecursionError):  # not JSON, or nested beyond reading
        return None


def _shrunk(text: str, start: int, limit: int, depth: int) -> str | None:
    """The container at ``start`` in at most ``limit`` characters, or ``None`` when no element of it fits."""
    opening, closing = text[start], "]" if text[start] == "[" else "}"
    elements = _elements(text, start)
    if not elements:
        return None
    ending = _marker(opening, len(elements), text) + closing  # the longest it can get
    kept = 0
    while kept < len(elements) and elements[kept].end - start + len(ending) + 1 <= limit:
        kept += 1
    if kept == len(elements):
        return text[start : elements[-1].end] + closing
    torn = elements[kept]
    room = limit - (torn.value - start) - len(ending) - 1
    looks_inside = text[torn.value] in "[{" and room > 0 and depth > 0
    part = _shrunk(text, torn.value, room, depth - 1) if looks_inside else None
    if part is not None:
        body, left = text[start : torn.value] + part, len(elements) - kept - 1
    elif kept:
        body, left = text[start : elements[kept - 1].end], len(elements) - kept
    else:
        return None
    return body + ("," + _marker(opening, left, text) if left else "") + closing


def _marker(opening: str, left: int, text: str) -> str:
    if opening == "[":
        return json.dumps(f"... ({left} more left out)")
    key = "..."
    while f'"{key}"' in text:  # an object must not get the same key twice
        key += "."
    return f'"{key}": "{left} more left out"'


def _elements(text: str, start: int) -> list[_Element]:
    found: list[_Element] = []
    at = _skip(text, start + 1)
    while text[at] not in "]}":
        begin = at
        if text[start] == "{":
            _, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        found.append(_Element(begin, at, end))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
