"""Who calls over HTTP: a key by name, and what it may do."""

from dataclasses import dataclass, field
from typing import Literal

KeyScope = Literal["chat", "read", "admin"]
"""``chat``: send messages and follow and steer one's own runs; ``read``: look at one's own conversations, costs and
states; ``admin``: what concerns the whole house, its jobs and what was given up."""

ALL_SCOPES: frozenset[KeyScope] = frozenset({"chat", "read", "admin"})
OPERATOR = "default"
"""The name of the token that stands in the environment or the data folder. It is the operator's, and may do all."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as a request carries it, without its secret. Its name is part of the keys of its conversations."""

    name: str
    scopes: frozenset[KeyScope] = field(default=ALL_SCOPES)

    @property
    def principal(self) -> str:
        """Who pays for what comes over this key."""
        return f"key:{self.name}"

    @property
    def is_operator(self) -> bool:
        """Whether it is the token of the house itself, which also sees what came over no key at all."""
        return self.name == OPERATOR
