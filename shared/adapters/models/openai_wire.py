"""Neutral messages to OpenAI's chat completions and their answers back. Pure: no SDK, no network.

Many servers speak this wire and few speak it alike; what is known to differ is taken as it comes and named here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import orjson

from shared.adapters.models.faults import ErrorInAnswer, broken_answer
from shared.adapters.models.think_spans import Delta, ThinkSpans
from shared.adapters.models.token_estimate import estimated_usage
from shared.adapters.models.wire_json import read_arguments, to_wire, wire_schema
from shared.domain.chat import AssistantMessage, ContentBlock, Message, SystemBlock, ToolCall
from shared.domain.effect import ToolSpec
from shared.domain.money import Usage
from shared.domain.provider import ModelSpec
from shared.ports.model import ModelAnswer, ModelRequest, StopReason

VENDOR_HOST = "api.openai.com"

_UNSEEN_IMAGE = "[an image that this model can't see]"
_IMAGES_OF = "[images of the result of the call {}]"
_THINKING_FIELDS = ("reasoning_content", "reasoning")

_STOP_REASONS: Mapping[str, StopReason] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


def request_body(spec: ModelSpec, request: ModelRequest) -> dict[str, Any]:
    """The whole body of one call."""
    body: dict[str, Any] = {
        "model": spec.model,
        # The vendor refuses the old name for its thinking models, and few others know the new one.
        **_answer_limit(spec, request.max_tokens),
        "messages": [
            *wire_system(request.system),
            *wire_messages(request.messages, vision=spec.supports_vision),
        ],
    }
    if request.tools and spec.supports_tools:
        body["tools"] = wire_tools(request.tools)
    if spec.supports_streaming:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    if spec.thinking_mode != "disabled" and spec.thinking_effort:
        body["reasoning_effort"] = spec.thinking_effort
    if spec.slot_id >= 0:
        body["id_slot"] = spec.slot_id
    return body


def _answer_limit(spec: ModelSpec, asked: int | None) -> dict[str, int]:
    if not _is_vendor(spec.base_url):
        return {"max_tokens": asked or spec.max_tokens}
    # What the vendor's models reason counts too, and can't be turned off for all of them: a short errand needs room.
    return {"max_completion_tokens": min(asked * 4, spec.max_tokens) if asked else spec.max_tokens}


@cache
def _is_vendor(base_url: str | None) -> bool:
    return base_url is None or urlsplit(base_url).hostname == VENDOR_HOST


def wire_system(blocks: Sequence[SystemBlock]) -> list[dict[str, Any]]:
    """All system blocks as one message, or none."""
    text = "\n\n".join(block["text"] for block in blocks if block["text"].strip())
    return [{"role": "system", "content": text}] if text else []


def wire_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Tools as functions."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": wire_schema(tool)},
        }
        for tool in tools
    ]


def wire_messages(messages: Sequence[Message], *, vision: bool = True) -> list[dict[str, Any]]:
    """The conversation; users who follow each other are merged, as the templates of many local models demand."""
    wire: list[dict[str, Any]] = []
    for message in messages:
        for said in _wire_message(message, vision=vision):
            if wire and wire[-1]["role"] == "user" == said["role"]:
                wire[-1]["content"] = _merged(wire[-1]["content"], said["content"])
            else:
                wire.append(said)
    return wire


def _wire_message(message: Message, *, vision: bool) -> Iterator[dict[str, Any]]:
    if message["role"] == "assistant":
        yield from _said(message)
    elif message["role"] == "tool_results":
        shown: list[dict[str, Any]] = []
        for result in message["results"]:
            parts = list(_asked(result.get("images", []), vision=vision))
            words = [result["content"], *(part["text"] for part in parts if part["type"] == "text")]
            yield {"role": "tool", "tool_call_id": result["tool_use_id"], "content": "\n".join(words)}
            if images := [part for part in parts if part["type"] != "text"]:
                shown += [{"type": "text", "text": _IMAGES_OF.format(result["tool_use_id"])}, *images]
        if shown:  # results are text on this wire, and nothing may stand between them
            yield {"role": "user", "content": shown}
    elif isinstance(message["content"], str):
        if message["content"].strip():
            yield {"role": "user", "content": message["content"]}
    elif parts := list(_asked(message["content"], vision=vision)):
        yield {"role": "user", "content": parts}


def _asked(blocks: Sequence[ContentBlock], *, vision: bool) -> Iterator[dict[str, Any]]:
    for block in blocks:
        if block["type"] == "image":
            if vision:
                url = f"data:{block['media_type']};base64,{block['data']}"
                yield {"type": "image_url", "image_url": {"url": url}}
            else:
                yield {"type": "text", "text": _UNSEEN_IMAGE}
        elif block["text"].strip():
            yield {"type": "text", "text": block["text"]}


def _said(message: AssistantMessage) -> Iterator[dict[str, Any]]:
    calls = [_wire_call(call) for call in message.get("tool_calls", [])]
    if calls:
        yield {"role": "assistant", "content": message["text"] or None, "tool_calls": calls}
    elif message["text"]:
        yield {"role": "assistant", "content": message["text"]}


def _wire_call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call["id"],
        "type": "function",
        "function": {"name": call["name"], "arguments": to_wire(call["arguments"]).decode()},
    }


def _merged(first: Any, second: Any) -> Any:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_as_parts(first), *_as_parts(second)]


def _as_parts(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


@dataclass(slots=True)
class _Call:
    """A tool call while it is coming in."""

    index: int | None = None
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)


class OpenAIAnswer:
    """Puts an answer together, from chunks or from one completion."""

    def __init__(self) -> None:
        self.finished = False
        self._spans = ThinkSpans()
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_Call] = []
        self._usage: Mapping[str, Any] = {}
        self._finish_reason: str | None = None
        self._refused = False

    @property
    def complete(self) -> bool:
        """Some servers never send ``[DONE]``, but all say why they stopped."""
        return self.finished or self._finish_reason is not None

    def event(self, data: bytes) -> list[Delta]:
        """Take one chunk of the stream."""
        if data.strip() == b"[DONE]":
            self.finished = True
            return self._told(self._spans.close())
        try:
            return self._take(orjson.loads(data), "delta")
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise broken_answer("a chunk can't be read") from error

    def whole(self, body: dict[str, Any]) -> list[Delta]:
        """Take one completion."""
        try:
            deltas = self._take(body, "message")
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise broken_answer("the completion can't be read") from error
        if not body.get("choices"):
            raise broken_answer("the completion has no choices")
        self.finished = True
        return deltas + self._told(self._spans.close())

    def answer(self, request: ModelRequest) -> ModelAnswer:
        """What was said; the usage is estimated when the provider gave none."""
        self._told(self._spans.close())
        text, thinking = "".join(self._text), "".join(self._thinking)
        calls = [_whole_call(call, f"call_{request.call_id.hex}_{place}") for place, call in enumerate(self._calls)]
        usage = _counted(self._usage) or estimated_usage(request, text + thinking, calls)
        return ModelAnswer(text, calls, self._stopped(calls), usage, thinking)

    def _take(self, chunk: dict[str, Any], part: str) -> list[Delta]:
        if chunk.get("error"):
            raise ErrorInAnswer(chunk["error"])
        self._usage = chunk.get("usage") or self._usage
        choices = chunk.get("choices")
        if not choices:
            return []
        choice = choices[0]
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        return self._hear(choice.get(part) or {})

    def _hear(self, said: dict[str, Any]) -> list[Delta]:
        deltas: list[Delta] = []
        # Servers that moved from one name to the other send both for a while, with the same text.
        for name in _THINKING_FIELDS:
            if isinstance(thought := said.get(name), str):
                if thought:
                    deltas += self._told([("thinking", thought)])
                break
        if content := said.get("content"):
            deltas += self._told(self._spans.feed(_as_text(content)))
        if refusal := said.get("refusal"):
            self._refused = True
            deltas += self._told([("text", refusal)])
        for call in said.get("tool_calls") or ():
            self._hear_call(call)
        return deltas

    def _hear_call(self, said: dict[str, Any]) -> None:
        function = said.get("function") or {}
        index, call_id, name = said.get("index"), said.get("id") or "", function.get("name") or ""
        call = self._call_meant(index, call_id, name)
        call.id = call.id or call_id
        call.name = call.name or name
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call.pieces.append(arguments)
        elif arguments is not None:
            # Some servers send the arguments as an object, and then whole.
            call.pieces = [to_wire(arguments).decode()]

    def _call_meant(self, index: int | None, call_id: str, name: str) -> _Call:
        """The call a piece belongs to: by index, else by id, else the last one.

        A new id together with a name begins a new call even under a known index, because some servers number every
        call 0; a name without id and index begins one, too.
        """
        known = [call for call in self._calls if (call.index == index if index is not None else call.id == call_id)]
        if index is None and not call_id and self._calls and not name:
            known = self._calls[-1:]
        elif index is None and not call_id:
            known = []
        if known and not (call_id and name and known[-1].id and known[-1].id != call_id):
            return known[-1]
        self._calls.append(_Call(index=index))
        return self._calls[-1]

    def _told(self, deltas: list[Delta]) -> list[Delta]:
        for kind, piece in deltas:
            (self._text if kind == "text" else self._thinking).append(piece)
        return deltas

    def _stopped(self, calls: list[ToolCall]) -> StopReason:
        reason = "refusal" if self._refused else _STOP_REASONS.get(self._finish_reason or "", "end_turn")
        if reason in ("end_turn", "tool_use"):
            return "tool_use" if calls else "end_turn"
        return reason


def _as_text(content: Any) -> str:
    """Content is a string nearly everywhere; a few servers send a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content if part.get("type") == "text")


def _whole_call(call: _Call, own_id: str) -> ToolCall:
    # A call without an id gets one of ours: its result has to name something.
    return {"id": call.id or own_id, "name": call.name, "arguments": read_arguments("".join(call.pieces))}


def _counted(usage: Mapping[str, Any]) -> Usage | None:
    prompt = usage.get("prompt_tokens") or 0
    details = usage.get("prompt_tokens_details") or {}
    # What the cache gave and took is part of prompt_tokens here.
    cache_read = min(details.get("cached_tokens") or 0, prompt)
    cache_write = min(details.get("cache_write_tokens") or 0, prompt - cache_read)
    counted = Usage(prompt - cache_read - cache_write, usage.get("completion_tokens") or 0, cache_read, cache_write)
    return counted if counted != Usage() else None
