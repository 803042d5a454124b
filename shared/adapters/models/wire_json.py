"""JSON on the wire to and from a provider. Pure."""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

import orjson

from shared.domain.effect import ToolSpec


def to_wire(body: Mapping[str, Any]) -> bytes:
    """A request body as bytes; any mapping counts as an object."""
    try:
        return orjson.dumps(body, default=_plain)
    except TypeError:
        # Integers beyond 64 bits and halves of surrogate pairs: models write them, orjson does not.
        return json.dumps(body, default=_plain).encode()


def read_arguments(text: str) -> dict[str, Any]:
    """A tool call's arguments; ``{"raw": text}`` when they are not one JSON object, nothing at all being no arguments.

    Line breaks inside strings are accepted, because models write them; NaN and infinities are not, because no store
    takes them.
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text, strict=False, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return {"raw": text}
    return value if isinstance(value, dict) else {"raw": text}


def wire_schema(tool: ToolSpec) -> Mapping[str, Any]:
    """A tool's parameters; both vendors demand that they are an object, and say so even where there are none."""
    return tool.input_schema if "type" in tool.input_schema else {"type": "object", **tool.input_schema}


def _plain(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
