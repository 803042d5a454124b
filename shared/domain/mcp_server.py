"""A server of the Model Context Protocol: how it is reached, what may be used of it, how it is doing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal

from shared.domain.effect import EffectClass

LONGEST_NAME = 24

_NAME = re.compile(r"[A-Za-z0-9-](?:_?[A-Za-z0-9-])*")


def is_server_name(name: str) -> bool:
    """Whether a server may be called so. No ``__`` inside, no ``_`` at an end: a tool's name has one reading then."""
    return len(name) <= LONGEST_NAME and _NAME.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class McpServer:
    """One server as configured. With a ``command`` it is a program of its own, else it is at ``url``.

    ``secrets`` are values to be kept out of logs and results. ``missing`` are variables without which it can't be
    reached. An empty ``allow`` allows every tool that ``deny`` does not name; names are the server's own.
    """

    name: str
    enabled: bool = True
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: Path | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    missing: tuple[str, ...] = ()
    allow: frozenset[str] = frozenset()
    deny: frozenset[str] = frozenset()
    effect: EffectClass = "once"
    effects: Mapping[str, EffectClass] = field(default_factory=dict)
    trust_annotations: bool = False
    start_timeout: timedelta = timedelta(seconds=30)
    call_timeout: timedelta = timedelta(seconds=60)
    max_tools: int = 100
    max_schema_bytes: int = 20_000


ServerCondition = Literal["off", "starting", "up", "away"]


@dataclass(frozen=True, slots=True)
class ServerState:
    """How a server is doing. ``reason`` says why it is away, in a sentence's half; ``unfit`` are the tools that are not
    offered, each with its reason."""

    name: str
    condition: ServerCondition
    reason: str = ""
    tools: int = 0
    unfit: Mapping[str, str] = field(default_factory=dict)
    about: str = ""
