"""Identifiers are made before the transaction that uses them, so a broken COMMIT can be looked up by id."""

import os
import time
from uuid import UUID


def new_id() -> UUID:
    """A fresh UUIDv7 (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10))
    value = (milliseconds & 0xFFFFFFFFFFFF) << 80
    value |= 0x7 << 76
    value |= ((random >> 62) & 0xFFF) << 64
    value |= 0x2 << 62
    value |= random & 0x3FFFFFFFFFFFFFFF
    return UUID(int=value)
