"""What a client is told of a request that can't be taken: its own field, one sentence, and nothing of the library."""

import re
from typing import Any

import pytest

from services.gateway.rules.openai_chat import read_completion
from services.gateway.rules.openai_errors import BadParameter
from services.gateway.rules.openai_responses import read_response

INTERNALS = re.compile(
    r"(?:function-\w+|union|list|dict|literal)\[|[A-Z]\w+(?:Body|Message|Part|Item|Id|Options)\b|[Ii]nput "
)


def refused(read: Any, body: dict[str, Any]) -> tuple[str | None, str]:
    with pytest.raises(BadParameter) as told:
        read({"model": "lucyd", **body})
    assert not INTERNALS.search(str(told.value)), str(told.value)
    return told.value.param, str(told.value)


def of_user(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


FAR = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}


@pytest.mark.parametrize(
    ("body", "param", "says"),
    [
        ({}, "messages", "field is required"),
        ({"messages": "hi"}, "messages", "must be a list"),
        ({"messages": ["hi"]}, "messages[0]", "must be an object"),
        ({"messages": [{"content": "hi"}]}, "messages[0].role", "field is required"),
        (
            {"messages": [{"role": "nobody", "content": "hi"}]},
            "messages[0].role",
            "must be 'system', 'developer', 'user', 'assistant', 'tool' or 'function'",
        ),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "field is required"),
        (of_user(5), "messages[0].content", "must be a string or a list"),
        (of_user({"type": "text"}), "messages[0].content", "must be a string or a list"),
        (of_user([{"type": "text"}]), "messages[0].content[0].text", "field is required"),
        (of_user([{"type": "text", "text": 5}]), "messages[0].content[0].text", "must be a string"),
        (of_user([{"type": "audio"}]), "messages[0].content[0].type", "must be 'text' or 'image_url'"),
        (
            of_user([FAR]),
            "messages[0].content[0].image_url.url",
            "must be a data: URL with an image as base64; nothing is fetched from elsewhere",
        ),
        (
            {"messages": [{"role": "system", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0].type",
            "must be 'text'",
        ),
        ({**of_user("hi"), "stream": "yes"}, "stream", "must be true or false"),
        ({**of_user("hi"), "stream_options": []}, "stream_options", "must be an object"),
        ({**of_user("hi"), "metadata": {"conversation": 5}}, "metadata.conversation", "must be a string"),
        (
            {**of_user("hi"), "lucyd": {"when_busy": "never"}},
            "lucyd.when_busy",
            "must be 'queue', 'steer', 'interrupt' or 'reject'",
        ),
        ({**of_user("hi"), "lucyd": {"tier": "a b"}}, "lucyd.tier", r"must match ^[A-Za-z0-9_-]{1,64}\Z"),
    ],
)
def test_a_mistake_in_a_completion_is_told_where_it_is(body: dict[str, Any], param: str, says: str) -> None:
    """A client shows it beside the field, a person reads it; neither knows how it was found."""
    assert refused(read_completion, body) == (param, f'"{param}" {says}')


@pytest.mark.parametrize(
    ("body", "param", "says"),
    [
        ({"input": 5}, "input", "must be a string or a list"),
        ({"input": " "}, "input", "must not be empty"),
        (
            {"input": [{"role": "user", "content": [{"type": "text"}]}]},
            "input[0].content[0].type",
            "must be 'input_text' or 'input_image'",
        ),
        ({"input": "hi", "conversation": 5}, "conversation", "must be a string or an object"),
        ({"input": "hi", "conversation": {}}, "conversation.id", "field is required"),
        ({"input": "hi", "conversation": {"id": 5}}, "conversation.id", "must be a string"),
    ],
)
def test_a_mistake_in_a_response_is_told_where_it_is(body: dict[str, Any], param: str, says: str) -> None:
    """Of what may be one of several things that one is spoken of which it comes nearest to."""
    assert refused(read_response, body) == (param, f'"{param}" {says}')


def test_a_field_with_a_sentence_of_its_own_keeps_it_and_is_named() -> None:
    """It says why; where exactly is told beside it."""
    body = {**of_user("hi"), "response_format": {"type": "json_object"}}
    assert refused(read_completion, body) == (
        "response_format.type",
        '"response_format" must be text: the agent answers in words',
    )
