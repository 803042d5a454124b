"""What OpenAI and its many imitators are sent, and what is made of their answers."""

from typing import Any
from uuid import UUID

import orjson
import pytest

from shared.adapters.models.faults import ErrorInAnswer
from shared.adapters.models.openai_wire import OpenAIAnswer, request_body, wire_messages
from shared.domain.chat import Message
from shared.domain.money import Usage
from shared.domain.provider import ModelSpec
from shared.ports.model import ModelAnswer, ModelRequest

REQUEST = ModelRequest(UUID(int=1), [], [{"role": "user", "content": "hi"}])


def _answer(*deltas: dict[str, Any], finish: str | None = "tool_calls") -> ModelAnswer:
    answer = OpenAIAnswer()
    for delta in deltas:
        answer.event(orjson.dumps({"choices": [{"delta": delta}]}))
    answer.event(orjson.dumps({"choices": [{"delta": {}, "finish_reason": finish}]}))
    answer.event(b"[DONE]")
    return answer.answer(REQUEST)


def _call(arguments: Any, **rest: Any) -> dict[str, Any]:
    name = {"name": rest.pop("name")} if "name" in rest else {}
    return {"tool_calls": [{**rest, "function": {**name, "arguments": arguments}}]}


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param(
            [
                _call("", index=0, id="a", name="x"),
                _call("", index=1, id="b", name="y"),
                _call('{"n":', index=0),
                _call("{}", index=1),
                _call("1}", index=0),
            ],
            id="by index, interleaved",
        ),
        pytest.param([_call('{"n":', id="a", name="x"), _call("1}"), _call("{}", id="b", name="y")], id="no index"),
        pytest.param(
            [_call('{"n":1}', index=0, id="a", name="x"), _call("{}", index=0, id="b", name="y")], id="all number 0"
        ),
        pytest.param([_call({"n": 1}, index=0, id="a", name="x"), _call({}, index=1, id="b", name="y")], id="objects"),
        pytest.param(
            [
                _call('{"n":', index=0, id="a", name="x"),
                _call("1}", index=0, id="a", name="x"),
                _call("", id="b", name="y"),
            ],
            id="id and name repeated",
        ),
    ],
)
def test_tool_calls_are_put_together_however_the_server_cuts_them(deltas: list[dict[str, Any]]) -> None:
    answer = _answer(*deltas)
    assert answer.tool_calls == [
        {"id": "a", "name": "x", "arguments": {"n": 1}},
        {"id": "b", "name": "y", "arguments": {}},
    ]
    assert answer.stop_reason == "tool_use"


def test_a_call_without_an_id_gets_one_that_is_its_own() -> None:
    """A result has to name its call; the vendor takes forty characters at most."""
    first, second = _answer(_call("{}", name="x"), _call("{}", name="x"), finish="stop").tool_calls
    assert first["id"] != second["id"]
    assert len(first["id"]) <= 40


@pytest.mark.parametrize("text", ['{"a": ', "[1]", "NaN", '{"a": NaN}', "ls -la"])
def test_arguments_that_are_no_json_object_are_kept_raw(text: str) -> None:
    assert _answer(_call(text, index=0, id="a", name="x")).tool_calls[0]["arguments"] == {"raw": text}


def test_line_breaks_inside_arguments_are_forgiven() -> None:
    assert _answer(_call('{"a": "1\n2"}', index=0, id="a", name="x")).tool_calls[0]["arguments"] == {"a": "1\n2"}


def test_cached_tokens_are_taken_out_of_the_prompt() -> None:
    """Here the prompt includes what came from the cache; paid twice it would be wrong money."""
    answer = OpenAIAnswer()
    answer.whole(
        {
            "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}},
        }
    )
    assert answer.answer(REQUEST).usage == Usage(input=40, output=7, cache_read=60)


def test_thinking_comes_from_its_own_field_and_from_tags() -> None:
    answer = _answer({"reasoning": "a", "reasoning_content": "a"}, {"content": "<think>b</think>c"}, finish="stop")
    assert (answer.thinking, answer.text) == ("ab", "c")


def test_a_refusal_is_text_and_a_reason() -> None:
    answer = _answer({"refusal": "I will not."}, finish="stop")
    assert (answer.text, answer.stop_reason) == ("I will not.", "refusal")
    assert _answer({"content": "x"}, finish="content_filter").stop_reason == "refusal"


def test_a_stream_may_end_without_done_once_it_said_why() -> None:
    answer = OpenAIAnswer()
    assert not answer.complete
    answer.event(b'{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}')
    assert answer.complete


def test_an_error_inside_a_200_is_an_error() -> None:
    with pytest.raises(ErrorInAnswer):
        OpenAIAnswer().event(b'{"error": {"message": "overloaded", "code": 529}}')


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        (None, "max_completion_tokens"),
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("http://127.0.0.1:8080/v1", "max_tokens"),
    ],
)
def test_the_vendor_and_its_imitators_know_different_names(base_url: str | None, name: str) -> None:
    spec = ModelSpec("primary", "openai", "m", base_url=base_url, slot_id=3)
    body = request_body(spec, REQUEST)
    assert body[name] == 4096
    assert body["id_slot"] == 3
    assert ("max_tokens" in body) != ("max_completion_tokens" in body)


def test_users_are_merged_but_results_stay_apart() -> None:
    calls: Any = [{"id": "a", "name": "x", "arguments": {}}, {"id": "b", "name": "y", "arguments": {}}]
    messages: list[Message] = [
        {"role": "user", "content": "one"},
        {"role": "user", "content": [{"type": "text", "text": "two"}]},
        {"role": "assistant", "text": "", "tool_calls": calls},
        {
            "role": "tool_results",
            "results": [{"tool_use_id": "a", "content": "A"}, {"tool_use_id": "b", "content": "B"}],
        },
        {"role": "assistant", "text": ""},
        {"role": "user", "content": ""},
    ]
    wire = wire_messages(messages)
    assert [message["role"] for message in wire] == ["user", "assistant", "tool", "tool"]
    assert wire[0]["content"] == [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert wire[1]["content"] is None


SEEN: list[Message] = [
    {
        "role": "assistant",
        "text": "",
        "tool_calls": [{"id": "a", "name": "x", "arguments": {}}, {"id": "b", "name": "y", "arguments": {}}],
    },
    {
        "role": "tool_results",
        "results": [
            {
                "tool_use_id": "a",
                "content": "A",
                "images": [
                    {"type": "text", "text": "[not shown]"},
                    {"type": "image", "media_type": "image/png", "data": "QUJD"},
                ],
            },
            {"tool_use_id": "b", "content": "B"},
        ],
    },
    {"role": "user", "content": "quick!"},
]


def test_images_of_results_follow_all_results_in_a_message_of_their_own() -> None:
    """Results are text on this wire, and anything between them would be refused."""
    wire = wire_messages(SEEN)
    assert [message["role"] for message in wire] == ["assistant", "tool", "tool", "user"]
    assert [message["content"] for message in wire[1:3]] == ["A\n[not shown]", "B"]
    assert wire[3]["content"] == [
        {"type": "text", "text": "[images of the result of the call a]"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
        {"type": "text", "text": "quick!"},
    ]


def test_a_model_that_does_not_see_is_told_of_images_of_results() -> None:
    """And nobody says something in between."""
    wire = wire_messages(SEEN[:2], vision=False)
    assert [message["role"] for message in wire] == ["assistant", "tool", "tool"]
    assert wire[1]["content"] == "A\n[not shown]\n[an image that this model can't see]"
