"""What a model writes is kept in a form that every store and wire can hold."""

import json
from typing import Any

import orjson
import pytest

from services.agent_worker.rules.storable import DEEPEST, storable_answer
from shared.domain.chat import AssistantMessage

HALF = "\ud83d"


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"in": value}
    return value


@pytest.mark.parametrize(
    "arguments",
    [
        {"file_path": HALF},
        {HALF: 1},
        {"lines": [10**40, -(10**40)]},
        nested(DEEPEST - 2),
        nested(400),
        {"text": "\0"},
    ],
)
def test_any_arguments_can_be_stored_and_sent(arguments: dict[str, Any]) -> None:
    """They were once the end of a worker process with everything in its hand."""
    asked: AssistantMessage = {
        "role": "assistant",
        "text": f"look{HALF}",
        "tool_calls": [{"id": "c1", "name": f"read{HALF}", "arguments": arguments}],
    }
    kept = storable_answer(asked)
    assert "\\ud83d" not in json.dumps(kept)
    assert isinstance(kept["tool_calls"][0]["arguments"], dict)
    orjson.dumps(kept)


def test_ordinary_arguments_stay_as_they_are() -> None:
    """To the letter: a file's content is not to be changed on its way."""
    arguments = {"content": "Ä\n\t\U0001f600", "n": 5, "yes": True, "none": None, "list": [1.5, {"a": "b"}]}
    asked: AssistantMessage = {
        "role": "assistant",
        "text": "ok",
        "tool_calls": [{"id": "c1", "name": "write", "arguments": arguments}],
    }
    assert storable_answer(asked) == asked


def test_what_is_nested_too_deep_becomes_text() -> None:
    """No tool has such parameters; it is told as invalid arguments."""
    asked: AssistantMessage = {
        "role": "assistant",
        "text": "",
        "tool_calls": [{"id": "c1", "name": "read", "arguments": nested(400)}],
    }
    assert set(storable_answer(asked)["tool_calls"][0]["arguments"]) == {"raw"}
