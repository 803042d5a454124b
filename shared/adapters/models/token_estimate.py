"""Tokens guessed from characters, for providers that do not count.

Money must not be guessed to be nothing: where a provider gives no usage (some local servers, streams that end without
it), four characters are taken for one token and rounded up, and every image for 1,600 tokens. Pure.
"""

from collections.abc import Iterator, Mapping

import orjson

from shared.domain.chat import ContentBlock, Message, ToolCall
from shared.domain.money import Usage
from shared.ports.model import ModelRequest

CHARACTERS_PER_TOKEN = 4
TOKENS_PER_IMAGE = 1600


def estimated_usage(request: ModelRequest, said: str, tool_calls: list[ToolCall]) -> Usage:
    """What a call may have used; ``said`` is text and thinking together."""
    asked = sum(len(block["text"]) for block in request.system)
    asked += sum(sum(_sizes(message)) for message in request.messages)
    asked += sum(len(tool.name) + len(tool.description) + _json_size(tool.input_schema) for tool in request.tools)
    return Usage(input=_tokens(asked), output=_tokens(len(said) + sum(_call_sizes(tool_calls))))


def _tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)


def _sizes(message: Message) -> Iterator[int]:
    if message["role"] == "assistant":
        yield len(message["text"])
        yield from _call_sizes(message.get("tool_calls", []))
    elif message["role"] == "tool_results":
        for result in message["results"]:
            yield len(result["content"])
            yield from (_block_size(block) for block in result.get("images", []))
    elif isinstance(message["content"], str):
        yield len(message["content"])
    else:
        yield from (_block_size(block) for block in message["content"])


def _block_size(block: ContentBlock) -> int:
    return len(block["text"]) if block["type"] == "text" else TOKENS_PER_IMAGE * CHARACTERS_PER_TOKEN


def _call_sizes(calls: list[ToolCall]) -> Iterator[int]:
    return (len(call["name"]) + _json_size(call["arguments"]) for call in calls)


def _json_size(value: Mapping[str, object]) -> int:
    return len(orjson.dumps(value, default=dict))
