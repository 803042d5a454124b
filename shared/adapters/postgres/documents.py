"""JSON for Postgres: what ``jsonb`` can't hold is replaced, never refused."""

from typing import Any

import orjson

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
LEAST, GREATEST = -(2**63), 2**64 - 1


def to_json(value: Any) -> str:
    """One JSON text. Decimals become strings; NUL and lone surrogates, which ``jsonb`` refuses, become U+FFFD;
    integers beyond 64 bits become text."""
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
            return "".join(REPLACEMENT if char == "\0" or "\ud800" <= char <= "\udfff" else char for char in value)
        case int() if not LEAST <= value <= GREATEST:
            return str(value)  # a model may write any number of digits
        case dict():
            return {_cleaned(key): _cleaned(item) for key, item in value.items()}
        case list() | tuple():
            return [_cleaned(item) for item in value]
        case _:
            return value
