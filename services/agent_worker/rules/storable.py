"""What a model wrote, so that every store and every wire can hold it."""

from typing import Any, cast

from services.agent_worker.rules.tool_output import storable
from shared.domain.chat import AssistantMessage, ToolCall

DEEPEST = 64
LEAST, GREATEST = -(2**63), 2**64 - 1


def storable_answer(message: AssistantMessage) -> AssistantMessage:
    """The message with half characters replaced, and with arguments that no store takes as ``{"raw": text}``."""
    kept = cast(
        "AssistantMessage",
        {key: storable(value) if isinstance(value, str) else value for key, value in message.items()},
    )
    if calls := message.get("tool_calls"):
        kept["tool_calls"] = [_storable_call(call) for call in calls]
    return kept


def _storable_call(call: ToolCall) -> ToolCall:
    try:
        arguments = _cleaned(call["arguments"], 0)
    except _TooDeep:
        arguments = {"raw": storable(str(call["arguments"]))}
    return {"id": storable(call["id"]), "name": storable(call["name"]), "arguments": arguments}


class _TooDeep(Exception):
    """Nested deeper than any tool's parameters are."""


def _cleaned(value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise _TooDeep
    match value:
        case str():
            return storable(value)
        case bool() | None:
            return value
        case int():
            return value if LEAST <= value <= GREATEST else str(value)
        case dict():
            return {storable(str(key)): _cleaned(item, depth + 1) for key, item in value.items()}
        case list():
            return [_cleaned(item, depth + 1) for item in value]
        case _:
            return value
