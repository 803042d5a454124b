"""What a model sent as a tool's arguments, held against the tool's schema before the tool is touched.

Only the part of JSON Schema that tools really use is read: ``properties``, ``required``, ``type``, ``enum``, ``items``.
Whatever else a schema says is left to the tool. A schema without ``properties`` declares nothing and admits anything.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from shared.errors import BadInput

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_BOOLEANS = {"true": True, "false": False}
_ARTICLES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_UNFIT = object()
_VARIATION = "\N{VARIATION SELECTOR-16}"
"""Asks for a sign to be shown as an emoji. Models write it where the lists of services have the sign alone."""


def arguments_hash(arguments: Mapping[str, Any]) -> str:
    """SHA-256, hex, of the arguments in one fixed writing: what was asked about is what is run."""
    return hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()


def checked_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the tool may take them: a new dictionary, strings turned into the scalars the schema asks for.

    A null for an optional argument that can't be null counts as left out, because models send it in that sense.
    Raises ``BadInput`` naming every mistake, and never a value: values may be long or secret.
    """
    properties = schema.get("properties")
    if _is_unparsed(arguments, properties):
        raise BadInput("the arguments are not valid JSON; send one JSON object")
    if not isinstance(properties, Mapping):
        return dict(arguments)
    required = schema.get("required") or ()
    admits_more = schema.get("additionalProperties", False) is not False
    mistakes = [f"missing required argument '{name}'" for name in required if name not in arguments]
    taken: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in properties:
            if value is not None or name in required or _admits_null(properties[name]):
                taken[name] = _fitted(value, properties[name], f"'{name}'", mistakes)
        elif admits_more:
            taken[name] = value
        else:
            mistakes.append(f"unknown argument '{name[:60]}'")
    if mistakes:
        raise BadInput("; ".join(mistakes))
    return taken


def _is_unparsed(arguments: Mapping[str, Any], properties: Any) -> bool:
    """``{"raw": text}`` is how a model client hands over arguments that it could not read as JSON."""
    declared = isinstance(properties, Mapping) and "raw" in properties
    return not declared and arguments.keys() == {"raw"} and isinstance(arguments["raw"], str)


def _admits_null(schema: Any) -> bool:
    types = _types(schema)
    return not types or "null" in types


def _types(schema: Any) -> tuple[str, ...]:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if isinstance(kind, str):
        return (kind,)
    return tuple(each for each in kind if isinstance(each, str)) if isinstance(kind, list | tuple) else ()


def _fitted(value: Any, schema: Any, place: str, mistakes: list[str]) -> Any:
    """The value in one of the schema's types, or a mistake noted."""
    types = _types(schema)
    if types and not any(_is(value, kind) for kind in types):
        coerced = next((each for kind in types if (each := _coerced(value, kind)) is not _UNFIT), _UNFIT)
        if coerced is _UNFIT:
            wanted = " or ".join(_ARTICLES.get(kind, kind) for kind in types)
            mistakes.append(f"{place} must be {wanted}, not {_name(value)}")
            return value
        value = coerced
    if not isinstance(schema, Mapping):
        return value
    choices = schema.get("enum")
    if isinstance(choices, list | tuple) and isinstance(value, str) and value not in choices:
        bare = value.replace(_VARIATION, "")
        value = bare if bare in choices else value
    if isinstance(choices, list | tuple) and value not in choices:
        mistakes.append(f"{place} must be one of {', '.join(str(each) for each in choices)}")
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [_fitted(each, schema["items"], f"{place}[{index}]", mistakes) for index, each in enumerate(value)]
    return value


def _is(value: Any, kind: str) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return (isinstance(value, int) and not isinstance(value, bool)) or _is_finite(value)
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "null":
            return value is None
        case _:
            return True  # a type of a later dialect: not ours to judge


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _coerced(value: Any, kind: str) -> Any:
    """A scalar that was sent in another coat, or ``_UNFIT``."""
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, str):
        return _UNFIT
    text = value.strip()
    if kind == "boolean":
        return _BOOLEANS.get(text.lower(), _UNFIT)
    if kind in {"integer", "number"} and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "number":
        try:
            number = float(text)
        except ValueError:
            return _UNFIT
        return number if math.isfinite(number) else _UNFIT
    return _UNFIT


def _name(value: Any) -> str:
    if isinstance(value, float) and not _is_finite(value):
        return "an infinite one"
    names = {
        bool: "a boolean",
        int: "an integer",
        float: "a fraction",
        str: "a string",
        list: "an array",
        dict: "an object",
    }
    return "null" if value is None else names.get(type(value), "another type")
