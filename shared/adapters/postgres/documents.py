"""JSON for Postgres: what ``jsonb`` can't hold is replaced, never refused."""

from typing import Any

import orjson

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def to_json(value: Any) -> str:
    """One JSON text. Decimals become strings; NUL and lone surrogates, which ``jsonb`` refuses, become U+FFFD."""
    try:
        text = orjson.dumps(value, default=str)
    except TypeError:
        text = orjson.dumps(_cleaned(value), default=str)
    if b"\\u0000" in text:
        text = orjson.dumps(_cleaned(value), default=str)
    return text.decode()


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            return value.replace("\0", REPLACEMENT).encode("utf-8", "replace").decode()
        case dict():
            return {_cleaned(key): _cleaned(item) for key, item in value.items()}
        case list() | tuple():
            return [_cleaned(item) for item in value]
        case _:
            return value
