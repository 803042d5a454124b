"""Whom memory, authorisation and erasure go by."""

from dataclasses import dataclass

OWNER = "owner"
"""The person that an agent belongs to."""


@dataclass(frozen=True, slots=True)
class Identity:
    """As whom somebody came, and the person this is as long as nobody has linked it with another."""

    name: str
    person: str
