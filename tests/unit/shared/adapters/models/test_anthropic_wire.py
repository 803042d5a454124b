"""What Anthropic is sent, and what is made of its answers."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest

from shared.adapters.models.anthropic_wire import AnthropicAnswer, request_body, wire_messages, wire_system
from shared.domain.chat import Message
from shared.domain.money import Usage
from shared.domain.provider import ModelSpec
from shared.errors import TryLater
from shared.ports.model import ModelRequest

REQUEST = ModelRequest(UUID(int=1), [], [{"role": "user", "content": "hi"}], timeout=timedelta(seconds=1))


def spec(**changes: Any) -> ModelSpec:
    return ModelSpec("primary", "anthropic", "m", **changes)


def test_the_last_block_of_each_lasting_tier_ends_a_cached_prefix() -> None:
    """A mark on what changes every time would buy a cache entry that nobody reads."""
    blocks = wire_system(
        [
            {"tier": "stable", "text": "a"},
            {"tier": "stable", "text": "b"},
            {"tier": "stable", "text": "  "},
            {"tier": "semi_stable", "text": "c"},
            {"tier": "dynamic", "text": "d"},
        ],
        cache=True,
    )
    assert [(block["text"], "cache_control" in block) for block in blocks] == [
        ("a", False),
        ("b", True),
        ("c", True),
        ("d", False),
    ]


def test_results_come_first_although_the_person_wrote_before_them() -> None:
    """The API refuses text before results; people write while tools run."""
    messages: list[Message] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "text": " ", "tool_calls": [{"id": "t1", "name": "exec", "arguments": {}}]},
        {"role": "user", "content": "quick!"},
        {"role": "tool_results", "results": [{"tool_use_id": "t1", "content": "", "is_error": True}]},
    ]
    wire = wire_messages(messages)
    assert [message["role"] for message in wire] == ["user", "assistant", "user"]
    assert wire[1]["content"] == [{"type": "tool_use", "id": "t1", "name": "exec", "input": {}}]
    assert wire[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "t1", "is_error": True},
        {"type": "text", "text": "quick!"},
    ]


def test_empty_messages_are_left_out_and_the_first_is_the_users() -> None:
    wire = wire_messages(
        [{"role": "assistant", "text": "summary"}, {"role": "user", "content": [{"type": "text", "text": ""}]}]
    )
    assert [message["role"] for message in wire] == ["user", "assistant"]


def test_translating_changes_nothing_of_what_is_stored() -> None:
    """History is read far more often than written; a merge must not write into it."""
    native: dict[str, Any] = {"provider": "anthropic", "content": [{"type": "text", "text": "x"}]}
    messages: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": "b"},
        {"role": "assistant", "text": "x", "native": native},
        {"role": "assistant", "text": "y"},
    ]
    before = orjson.dumps(messages)
    wire_messages(messages)
    assert orjson.dumps(messages) == before


def test_adaptive_thinking_takes_an_effort() -> None:
    body = request_body(spec(thinking_mode="adaptive", thinking_effort="high", max_tokens=5), REQUEST)
    assert (body["thinking"], body["output_config"], body["max_tokens"]) == (
        {"type": "adaptive"},
        {"effort": "high"},
        5,
    )
    assert "thinking" not in request_body(spec(), REQUEST)


def test_a_model_without_eyes_is_told_of_the_image() -> None:
    messages: list[Message] = [
        {"role": "user", "content": [{"type": "image", "media_type": "image/png", "data": "AA=="}]}
    ]
    assert wire_messages(messages, vision=False)[0]["content"][0]["type"] == "text"


def _events(*events: dict[str, Any]) -> AnthropicAnswer:
    answer = AnthropicAnswer()
    for event in events:
        answer.event(orjson.dumps(event))
    return answer


def test_arguments_that_are_no_json_are_kept_as_they_are() -> None:
    """A call cut off by max_tokens must reach the tool as an error, not kill the run."""
    answer = _events(
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "t", "name": "exec", "input": {}},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a": '}},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ).answer(REQUEST)
    assert answer.tool_calls == [{"id": "t", "name": "exec", "arguments": {"raw": '{"a": '}}]
    assert answer.stop_reason == "max_tokens"
    assert answer.usage == Usage(input=5, output=9)


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("pause_turn", "end_turn"),
        ("refusal", "refusal"),
        ("tool_use", "end_turn"),
        (None, "end_turn"),
        ("new", "end_turn"),
    ],
)
def test_every_reason_to_stop_has_our_word(reason: str | None, ours: str) -> None:
    answer = AnthropicAnswer()
    answer.whole({"content": [{"type": "text", "text": "x"}], "stop_reason": reason})
    assert answer.answer(REQUEST).stop_reason == ours


def test_an_event_that_makes_no_sense_is_a_broken_answer() -> None:
    with pytest.raises(TryLater):
        _events({"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "x"}})


def test_images_of_a_result_stand_within_it() -> None:
    """But not beside an error: the API takes nothing but text there."""
    image: Any = {"type": "image", "media_type": "image/png", "data": "QUJD"}
    messages: list[Message] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "text": "", "tool_calls": [{"id": "a", "name": "x", "arguments": {}}]},
        {"role": "tool_results", "results": [{"tool_use_id": "a", "content": "A", "images": [image]}]},
    ]
    source = {"type": "base64", "media_type": "image/png", "data": "QUJD"}
    (result,) = wire_messages(messages)[2]["content"]
    assert result["content"] == [{"type": "text", "text": "A"}, {"type": "image", "source": source}]
    (unseen,) = wire_messages(messages, vision=False)[2]["content"]
    assert [block["type"] for block in unseen["content"]] == ["text", "text"]
    failed: Message = {
        "role": "tool_results",
        "results": [{"tool_use_id": "a", "content": "Error", "images": [image], "is_error": True}],
    }
    (refused,) = wire_messages([*messages[:2], failed])[2]["content"]
    assert refused == {"type": "tool_result", "tool_use_id": "a", "content": "Error", "is_error": True}
