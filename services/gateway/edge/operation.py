"""What the API can do, one value for each: from it a request is routed, admitted, limited, tested and documented."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from shared.domain.api_key import KeyScope

ID = {"type": "string", "format": "uuid"}
RUN_PARTS = {"id": ID}

Answer = Callable[[Request], Awaitable[Response]]
Method = Literal["GET", "POST", "DELETE"]
Dialect = Literal["lucyd", "openai", "plain"]
"""In which shape this operation's errors are told: ours, OpenAI's, or a line for probes without the agent's name."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer that an operation may give. ``body`` is the type of its JSON, ``None`` where there is none to tell.

    ``also``: further media types under which it may come.
    """

    meaning: str
    body: Any = None
    media: str = "application/json"
    also: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """Something a client can ask for.

    ``path`` may name parts in braces; ``parts`` says what they look like where they are not plain text.
    ``needs``: the scope a key must have; ``None``: open to everybody, no key is looked at. ``or_needs``: another one
    that is as good.
    ``body`` and ``query`` are the types that the request is checked with; ``replies`` are those of its own, by status:
    what any request may meet (401, 429 and so on) is added where it is documented. ``may_be_empty``: a request without
    any body says the same as one with ``{}``.
    ``counts_as`` names the window of requests that it takes from. ``repeatable``: it takes ``Idempotency-Key``.
    """

    method: Method
    path: str
    answer: Answer
    needs: KeyScope | None
    summary: str
    replies: Mapping[int, Reply]
    body: type[BaseModel] | None = None
    may_be_empty: bool = False
    or_needs: KeyScope | None = None
    query: type[BaseModel] | None = None
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    headers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    counts_as: Literal["read", "work"] = "read"
    repeatable: bool = False
    dialect: Dialect = "lucyd"
    tag: str = "runs"
    description: str = ""

    @property
    def scopes(self) -> tuple[KeyScope, ...]:
        """Each of them is enough."""
        return tuple(scope for scope in (self.needs, self.or_needs) if scope is not None)

    @property
    def is_fixed(self) -> bool:
        """Whether its path has no parts that change."""
        return "{" not in self.path

    def pattern(self) -> re.Pattern[str]:
        """Finds the parts of a path of this operation; a part has no slash, but for one named ``{name:path}``."""
        pieces = re.split(r"\{(\w+)(:path)?\}", self.path)
        text = re.escape(pieces[0])
        for name, long, rest in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
            text += f"(?P<{name}>{'.+' if long else '[^/]+'})" + re.escape(rest)
        return re.compile(f"^{text}$")
