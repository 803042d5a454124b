"""W3C Trace Context, level 2: which request all of this belongs to. The randomness comes from who asks."""

import re
from uuid import UUID

FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
VERSION = "00"
KNOWN_FLAGS = 0x03
RANDOM = "02"
"""The flags of a trace that begins here: its id is random, and nobody has recorded it so far."""

SPAN_BYTES = 8
TRACE_BYTES = 16
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16


def carried_on(given: str | None, span: bytes) -> str | None:
    """The ``traceparent`` with ``span`` as the one that is under way now; ``None`` when what was given is not valid.

    Of a version newer than ours what we know is read; flags that we do not know are left out.
    """
    if given is None or (found := FORM.fullmatch(given)) is None:
        return None
    version, trace, parent, flags, more = found.groups()
    if version == "ff" or (version == VERSION and more is not None) or trace == _NO_TRACE or parent == _NO_SPAN:
        return None
    return f"{VERSION}-{trace}-{span.hex()}-{int(flags, 16) & KNOWN_FLAGS:02x}"


def span_of(id: UUID) -> bytes:
    """The span of what has an id of its own: its random half."""
    return id.bytes[-SPAN_BYTES:]


def begun(trace: bytes, span: bytes) -> str:
    """The ``traceparent`` of a trace that begins here."""
    return f"{VERSION}-{trace.hex()}-{span.hex()}-{RANDOM}"


def trace_id(traceparent: str) -> str:
    """By which its parts are found again."""
    return traceparent[3:35]
