"""Servers of the Model Context Protocol: ``[mcp.servers.<name>]``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from shared.runtime.configuration.kinds import Address, Hours, Positive, Range, Variable

McpEffect = Literal["read", "idempotent", "once"]


@dataclass(frozen=True, slots=True)
class McpServerTable:
    """``[mcp.servers.<name>]``: a program (``command``) or an address (``url``). Times in seconds."""

    enabled: bool = True
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    cwd: str = ""
    url: Address = ""
    token_env: Variable = ""
    headers_env: Mapping[str, Variable] = field(default_factory=dict)
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    effect: McpEffect = "once"
    effects: Mapping[str, McpEffect] = field(default_factory=dict)
    trust_annotations: bool = False
    start_timeout: Hours = 30.0
    call_timeout: Hours = 60.0
    max_tools: Annotated[int, Range(1, 1000)] = 100
    max_schema_bytes: Positive = 20_000


@dataclass(frozen=True, slots=True)
class Mcp:
    """``[mcp]``."""

    servers: Mapping[str, McpServerTable] = field(default_factory=dict)
