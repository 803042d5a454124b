"""What a server's tool is to a model: a name, a description and a schema that no provider refuses."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.domain.effect import EffectClass, ToolSpec
from shared.domain.mcp_server import McpServer
from shared.domain.mcp_words import redacted, told, told_in

LONGEST_TOOL_NAME = 64
LONGEST_DESCRIPTION = 4000
DEEPEST_SCHEMA = 24

_SEPARATOR = "__"
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_DIGEST = 6
# Providers refuse these at the top of a tool's schema; the server holds them against the arguments itself.
_TOP_ONLY_OURS = frozenset({"oneOf", "anyOf", "allOf", "not", "enum", "const", "if", "then", "else"})


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as its server told of it."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    read_only: bool = False
    idempotent: bool = False


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as a model is offered it; ``server`` and ``name`` are what it is called by there."""

    server: str
    name: str
    spec: ToolSpec


class Unfit(Exception):
    """The tool can't be offered; the message says why."""


def safe_name(server: str, tool: str) -> str:
    """``<server>__<tool>``, as every provider accepts it.

    It depends on these two names alone, so that it stays the same whatever other tools there are: a prompt cache
    outlives a server that comes or goes. Where characters were replaced or cut off, the beginning of a hash of the
    tool's name tells it from others that would look the same.
    """
    cleaned = _UNFIT.sub("_", tool)
    room = LONGEST_TOOL_NAME - len(server) - len(_SEPARATOR)
    if cleaned == tool and tool and len(tool) <= room:
        return f"{server}{_SEPARATOR}{tool}"
    digest = hashlib.sha256(tool.encode("utf-8", "replace")).hexdigest()[:_DIGEST]
    return f"{server}{_SEPARATOR}{cleaned[: room - _DIGEST - 1]}_{digest}"


def offered(server: McpServer, listed: Sequence[ListedTool]) -> tuple[list[OfferedTool], dict[str, str]]:
    """The tools that may be used, in the order of their names, and for each other one why not."""
    fit: dict[str, OfferedTool] = {}
    unfit: dict[str, str] = {}
    for tool in sorted(listed, key=lambda each: each.name):
        shown = plain(" ".join(told(tool.name, server).split()), 100)
        try:
            if tool.name in server.deny or (server.allow and tool.name not in server.allow):
                raise Unfit("not allowed by the configuration")
            if len(fit) == server.max_tools:
                raise Unfit(f"more than {server.max_tools} tools (max_tools)")
            if redacted(tool.name, server) != tool.name:
                raise Unfit("its name holds a secret")
            spec = _spec(server, tool)
            if spec.name in fit:
                raise Unfit("told of twice")
            fit[spec.name] = OfferedTool(server.name, tool.name, spec)
        except Unfit as reason:
            unfit.setdefault(shown, str(reason))
    return list(fit.values()), unfit


def plain(text: str, longest: int) -> str:
    """Text of others in a line or a prompt: no control characters but line breaks and tabs, and not too long."""
    kept = "".join(each if each.isprintable() or each in "\n\t" else " " for each in text[: longest + 1])
    return kept if len(text) <= longest else kept[: max(longest - 3, 0)] + "..."


def _spec(server: McpServer, tool: ListedTool) -> ToolSpec:
    if not tool.name.strip():
        raise Unfit("it has no name")
    return ToolSpec(
        name=safe_name(server.name, tool.name),
        description=plain(told(tool.description, server), LONGEST_DESCRIPTION).strip()
        or f"{plain(tool.name, 100)} of {server.name}",
        input_schema=_schema(tool.input_schema, server),
        effect=_effect(server, tool),
    )


def _effect(server: McpServer, tool: ListedTool) -> EffectClass:
    if tool.name in server.effects:
        return server.effects[tool.name]
    if server.trust_annotations and tool.read_only:
        return "read"
    if server.trust_annotations and tool.idempotent:
        return "idempotent"
    return server.effect


def _schema(given: Mapping[str, Any], server: McpServer) -> Mapping[str, Any]:
    longest = server.max_schema_bytes
    try:
        size = len(json.dumps(given, allow_nan=False).encode("utf-8"))
    except (ValueError, TypeError, RecursionError, UnicodeEncodeError) as fault:
        raise Unfit("its schema is no JSON") from fault
    if size > longest:
        raise Unfit(f"its schema has {size} bytes, more than {longest} (max_schema_bytes)")
    if _depth(given) > DEEPEST_SCHEMA:
        raise Unfit(f"its schema is nested more than {DEEPEST_SCHEMA} deep")
    if given.get("type", "object") != "object":
        raise Unfit("its schema is not that of an object")
    given = told_in(given, server)  # not before: it is nested no deeper than can be looked into now
    properties = given.get("properties", {})
    if not isinstance(properties, Mapping) or not isinstance(given.get("required", []), list):
        raise Unfit("its schema is none")
    if strange := [name for name in properties if not _PROPERTY.fullmatch(name)]:
        raise Unfit(f"no provider takes an argument called {plain(strange[0], 64)!r}")
    kept = {key: _cleaned(value) for key, value in given.items() if key not in _TOP_ONLY_OURS}
    # Without a word on other arguments, JSON Schema admits them where nothing at all is declared.
    more = {} if properties or "additionalProperties" in given else {"additionalProperties": True}
    return {**kept, **more, "type": "object", "properties": _cleaned(properties)}


def _depth(value: Any) -> int:
    deepest, open_ = 0, [(value, 1)]
    while open_:
        here, depth = open_.pop()
        deepest = max(deepest, depth)
        inner = here.values() if isinstance(here, Mapping) else here if isinstance(here, list) else ()
        open_ += [(each, depth + 1) for each in inner]
    return deepest


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value, LONGEST_DESCRIPTION)
    if isinstance(value, Mapping):
        return {key: _cleaned(each) for key, each in value.items()}
    return [_cleaned(each) for each in value] if isinstance(value, list) else value
