"""Neutral messages to Anthropic's Messages API and its answers back. Pure: no SDK, no network.

What the API insists on and this module therefore sees to: roles alternate, the first message is the user's, results
come first in the message after their calls, nothing is empty, and signed thinking comes back exactly as it was sent.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from shared.adapters.models.faults import ErrorInAnswer, broken_answer
from shared.adapters.models.think_spans import Delta
from shared.adapters.models.token_estimate import estimated_usage
from shared.adapters.models.wire_json import read_arguments, wire_schema
from shared.domain.chat import AssistantMessage, ContentBlock, Message, Native, SystemBlock, ToolCall, ToolResult
from shared.domain.effect import ToolSpec
from shared.domain.money import Usage
from shared.domain.provider import ModelSpec
from shared.ports.model import ModelAnswer, ModelRequest, StopReason

PROVIDER = "anthropic"

Block = dict[str, Any]

_EPHEMERAL = {"type": "ephemeral"}
_CACHED_TIERS = ("stable", "semi_stable")
_NOT_SHOWN = "[earlier messages are not shown]"
_UNSEEN_IMAGE = "[an image that this model can't see]"
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")
_SIGNED = ("thinking", "redacted_thinking")

_STOP_REASONS: Mapping[str, StopReason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "pause_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
}


def request_body(spec: ModelSpec, request: ModelRequest) -> dict[str, Any]:
    """The whole body of one call."""
    body: dict[str, Any] = {
        "model": spec.model,
        "max_tokens": request.max_tokens or spec.max_tokens,
        "messages": wire_messages(request.messages, vision=spec.supports_vision),
    }
    if system := wire_system(request.system, cache=spec.cache_control):
        body["system"] = system
    if request.tools and spec.supports_tools:
        body["tools"] = wire_tools(request.tools)
    if spec.supports_streaming:
        body["stream"] = True
    if request.max_tokens is None:
        body.update(_thinking(spec))
    return body


def _thinking(spec: ModelSpec) -> dict[str, Any]:
    match spec.thinking_mode:
        case "budgeted":
            # The budget counts towards max_tokens and must be less: what was configured stays for the answer.
            return {
                "thinking": {"type": "enabled", "budget_tokens": spec.thinking_budget},
                "max_tokens": spec.thinking_budget + spec.max_tokens,
            }
        case "adaptive":
            effort = {"output_config": {"effort": spec.thinking_effort}} if spec.thinking_effort else {}
            return {"thinking": {"type": "adaptive"}, **effort}
        case "disabled":
            return {}


def wire_system(blocks: Sequence[SystemBlock], *, cache: bool) -> list[Block]:
    """System blocks as text blocks; with ``cache`` the last stable and the last semi-stable one end a cached prefix."""
    kept = [block for block in blocks if block["text"].strip()]
    wire: list[Block] = [{"type": "text", "text": block["text"]} for block in kept]
    for tier in _CACHED_TIERS if cache else ():
        last = max((place for place, block in enumerate(kept) if block["tier"] == tier), default=None)
        if last is not None:
            wire[last]["cache_control"] = _EPHEMERAL
    return wire


def wire_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Tools as the API declares them."""
    return [{"name": tool.name, "description": tool.description, "input_schema": wire_schema(tool)} for tool in tools]


def wire_messages(messages: Sequence[Message], *, vision: bool = True) -> list[dict[str, Any]]:
    """The conversation, neighbours of one role merged; an answer at its very beginning gets a line before it."""
    wire: list[dict[str, Any]] = []
    for message in messages:
        role, content = _role_and_content(message, vision=vision)
        if not content:
            continue
        if not wire and role == "assistant":
            wire.append({"role": "user", "content": [{"type": "text", "text": _NOT_SHOWN}]})
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"].extend(content)
        else:
            wire.append({"role": role, "content": content})
    for message_out in wire:
        # Results must come first, also when a person wrote while the tools ran. The sort is stable.
        message_out["content"].sort(key=lambda block: message_out["role"] == "user" and block["type"] != "tool_result")
    return wire


def _role_and_content(message: Message, *, vision: bool) -> tuple[str, list[Block]]:
    if message["role"] == "assistant":
        return "assistant", list(_said(message))
    if message["role"] == "tool_results":
        return "user", [_result(result, vision=vision) for result in message["results"]]
    content = message["content"]
    blocks: Sequence[ContentBlock] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return "user", list(_asked(blocks, vision=vision))


def _asked(blocks: Sequence[ContentBlock], *, vision: bool) -> Iterator[Block]:
    for block in blocks:
        if block["type"] == "image":
            if vision:
                source = {"type": "base64", "media_type": block["media_type"], "data": block["data"]}
                yield {"type": "image", "source": source}
            else:
                yield {"type": "text", "text": _UNSEEN_IMAGE}
        elif block["text"].strip():
            yield {"type": "text", "text": block["text"]}


def _said(message: AssistantMessage) -> Iterator[Block]:
    native = message.get("native")
    if native is not None and native["provider"] == PROVIDER:
        yield from native["content"]
        return
    if message["text"].strip():
        yield {"type": "text", "text": message["text"]}
    for call in message.get("tool_calls", []):
        yield {"type": "tool_use", "id": _wire_id(call["id"]), "name": call["name"], "input": call["arguments"]}


def _result(result: ToolResult, *, vision: bool) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": _wire_id(result["tool_use_id"])}
    if result["content"]:
        block["content"] = result["content"]
    if result.get("is_error"):
        block["is_error"] = True  # the API takes nothing but text beside that
    elif images := result.get("images"):
        words: ContentBlock = {"type": "text", "text": result["content"]}
        block["content"] = list(_asked([words, *images], vision=vision))
    return block


def _wire_id(call_id: str) -> str:
    """Ids of other providers hold what this API refuses, and a conversation may change its provider."""
    return _NOT_IN_IDS.sub("_", call_id)


class AnthropicAnswer:
    """Puts an answer together, from events or from one message."""

    def __init__(self) -> None:
        self.finished = False
        self._blocks: dict[int, Block] = {}
        self._pieces: dict[int, dict[str, list[str]]] = {}
        self._usage: dict[str, int] = {}
        self._stop_reason: str | None = None

    @property
    def complete(self) -> bool:
        """Only ``message_stop`` ends a message."""
        return self.finished

    def event(self, data: bytes) -> list[Delta]:
        """Take one event of the stream."""
        try:
            event: dict[str, Any] = orjson.loads(data)
            return self._take(event)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise broken_answer("an event can't be read") from error

    def _take(self, event: dict[str, Any]) -> list[Delta]:
        match event.get("type"):
            case "content_block_delta":
                return self._delta(event["index"], event["delta"])
            case "content_block_start":
                self._blocks[event["index"]] = dict(event["content_block"])
                self._pieces[event["index"]] = {}
                return self._first(event["content_block"])
            case "message_start":
                self._count(event["message"].get("usage"))
            case "message_delta":
                self._stop_reason = event["delta"].get("stop_reason") or self._stop_reason
                self._count(event.get("usage"))
            case "message_stop":
                self.finished = True
            case "error":
                raise ErrorInAnswer(event.get("error"))
        return []

    def whole(self, body: dict[str, Any]) -> list[Delta]:
        """Take one message."""
        if body.get("type") == "error":
            raise ErrorInAnswer(body.get("error"))
        content = body.get("content")
        if not isinstance(content, list):
            raise broken_answer("the message has no content")
        self._blocks = dict(enumerate(content))
        self._stop_reason = body.get("stop_reason")
        self._count(body.get("usage"))
        self.finished = True
        return [delta for block in content for delta in self._first(block)]

    def answer(self, request: ModelRequest) -> ModelAnswer:
        """What was said; the usage is estimated when the provider gave none."""
        content = [self._whole_block(place) for place in sorted(self._blocks)]
        text = "".join(block.get("text", "") for block in content if block["type"] == "text")
        thinking = "\n\n".join(block["thinking"] for block in content if block.get("thinking"))
        calls = [_call(block) for block in content if block["type"] == "tool_use"]
        usage = self._counted() or estimated_usage(request, text + thinking, calls)
        return ModelAnswer(text, calls, self._stopped(calls), usage, thinking, _native(content))

    def _delta(self, index: int, delta: dict[str, Any]) -> list[Delta]:
        match delta.get("type"):
            case "text_delta":
                self._add(index, "text", delta["text"])
                return [("text", delta["text"])] if delta["text"] else []
            case "thinking_delta":
                self._add(index, "thinking", delta["thinking"])
                return [("thinking", delta["thinking"])] if delta["thinking"] else []
            case "input_json_delta":
                self._add(index, "input", delta["partial_json"])
            case "signature_delta":
                self._blocks[index]["signature"] = delta["signature"]
            case "citations_delta":
                self._blocks[index]["citations"] = [*(self._blocks[index].get("citations") or []), delta["citation"]]
        return []

    def _add(self, index: int, key: str, piece: str) -> None:
        self._pieces[index].setdefault(key, []).append(piece)

    def _whole_block(self, index: int) -> Block:
        block = dict(self._blocks[index])
        for key, pieces in self._pieces.get(index, {}).items():
            if key == "input":
                block["input"] = read_arguments("".join(pieces))
            else:
                block[key] = (block.get(key) or "") + "".join(pieces)
        return block

    @staticmethod
    def _first(block: dict[str, Any]) -> list[Delta]:
        if block["type"] == "text" and block.get("text"):
            return [("text", block["text"])]
        if block["type"] == "thinking" and block.get("thinking"):
            return [("thinking", block["thinking"])]
        return []

    def _count(self, usage: Mapping[str, Any] | None) -> None:
        # The counts of a later event replace those of an earlier one: they are running totals.
        self._usage.update({key: count for key, count in (usage or {}).items() if isinstance(count, int)})

    def _counted(self) -> Usage | None:
        count = self._usage.get
        usage = Usage(
            input=count("input_tokens", 0),
            output=count("output_tokens", 0),
            cache_read=count("cache_read_input_tokens", 0),
            cache_write=count("cache_creation_input_tokens", 0),
        )
        return usage if usage != Usage() else None

    def _stopped(self, calls: list[ToolCall]) -> StopReason:
        reason = _STOP_REASONS.get(self._stop_reason or "", "end_turn")
        if reason in ("end_turn", "tool_use"):
            return "tool_use" if calls else "end_turn"
        return reason


def _call(block: Block) -> ToolCall:
    arguments = block.get("input")
    if not isinstance(arguments, dict):
        arguments = {} if arguments is None else {"raw": str(arguments)}
    return {"id": block["id"], "name": block["name"], "arguments": arguments}


def _native(content: list[Block]) -> Native | None:
    if not any(block["type"] in _SIGNED for block in content):
        return None
    # The API sends empty text blocks at times and refuses them when they come back.
    kept = [block for block in content if block["type"] != "text" or block.get("text", "").strip()]
    return {"provider": PROVIDER, "content": kept}
