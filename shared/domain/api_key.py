"""Who calls over HTTP: a key by name, and what it may do."""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Literal

KeyScope = Literal["chat", "read", "admin"]
"""``chat``: send messages and follow and steer one's own runs; ``read``: look at one's own conversations, memory,
costs and states; ``admin``: what concerns the whole house, its jobs and what was given up."""

ALL_SCOPES: frozenset[KeyScope] = frozenset({"chat", "read", "admin"})
OPERATOR = "default"
"""The name of the token that stands in the environment or the data folder. It is the operator's, and may do all."""

KEY_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
"""What a named key may be called; the operator's name is taken. No colon: the name is a part of conversation keys."""

SECRET_MARK = "lk_"  # noqa: S105 - how secrets begin, so that one is known for what it is where it should not be
SECRET_BYTES = 32
_SECRET = re.compile(rb"lk_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as a request carries it, without its secret. Its name is part of the keys of its conversations."""

    name: str
    scopes: frozenset[KeyScope] = field(default=ALL_SCOPES)

    @property
    def principal(self) -> str:
        """Who pays for what comes over this key."""
        return f"key:{self.name}"

    def sees(self, principal: str) -> bool:
        """Whether it may see what goes on for a principal: for itself, and the operator for all but other keys."""
        return principal == self.principal or (self.is_operator and not principal.startswith("key:"))

    @property
    def is_operator(self) -> bool:
        """Whether it is the token of the house itself, which also sees what came over no key at all."""
        return self.name == OPERATOR


def may_be_named(name: str) -> bool:
    """Whether a named key may be called so."""
    return name != OPERATOR and KEY_NAME.fullmatch(name) is not None


def is_secret(given: bytes) -> bool:
    """Whether it has the form of a named key's secret; what has not is never looked up."""
    return _SECRET.fullmatch(given) is not None


def hash_of(secret: bytes) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(secret).digest()
