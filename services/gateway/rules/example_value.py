"""A value for a JSON schema, for people to read: as short as it may be."""

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]

DEEPEST = 8
"""Schemas inside schemas are followed so far."""

_BY_FORMAT = {
    "uuid": "01980000-0000-7000-8000-000000000000",
    "date-time": "2026-05-21T21:33:00Z",
    "uri": "https://example.org",
}


def example_of(schema: Json, schemas: Json, depth: int = 0) -> Any:
    """A value that this schema takes; its own examples first. ``schemas`` are those that ``$ref`` may name."""
    if depth > DEEPEST:
        return {}
    told = [schema[name] for name in ("const", "default") if schema.get(name) is not None]
    told += [schema[name][0] for name in ("examples", "enum") if schema.get(name)]
    if told:
        return told[0]
    if "$ref" in schema:
        return example_of(resolved(schema, schemas), schemas, depth + 1)
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name) and "properties" not in schema:  # beside fields it only says which of them go together
            return example_of(schema[name][0], schemas, depth + 1)
    return _by_type(schema, schemas, depth)


def resolved(schema: Json, schemas: Json) -> Json:
    """What a reference stands for; a schema that is none stands for itself."""
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Json = schemas.get(name, {}) if name else schema
    return found


def _by_type(schema: Json, schemas: Json, depth: int) -> Any:
    match schema.get("type"):
        case "object":
            wanted, fields = schema.get("required", ()), schema.get("properties", {})
            shown = {name: one for name, one in fields.items() if name in wanted or "examples" in one}
            return {name: example_of(one, schemas, depth + 1) for name, one in shown.items()}
        case "array":
            return [example_of(schema["items"], schemas, depth + 1)] if schema.get("minItems") else []
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "null":
            return None
    return _BY_FORMAT.get(schema.get("format", ""), "text")
