"""An image that a tool of an MCP server gives back reaches the model, also from a worker that was not there then."""

import base64
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server import PIXEL
from tests.scripted_model_server import Asked, Hang, Say, ScriptedModelServer, Step, Use, Wire
from tests.stack import PROJECT, Stack, client, model_toml, open_stack, text_of, wait_until

WIRES: tuple[Wire, ...] = ("anthropic", "openai")
ENCODED = base64.b64encode(PIXEL).decode()


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    found: Wire = request.param
    return found


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """A model that looks at a picture, and is not done with it when it is asked for the first time."""
    looked: list[str] = []

    def look(asked: Asked) -> Step:
        if asked.turn == 0:
            return Use([("one__echo", {"text": "hey"}), ("one__picture", {})])
        looked.append(asked.call_id)
        return Hang(60) if len(looked) == 1 else Say("I saw a pixel.")

    with ScriptedModelServer({"look": look, "again": [Say("I still see it.")]}).in_thread() as server:
        yield server


@pytest.fixture
def stack(
    wire: Wire, models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str
) -> Iterator[Stack]:
    program = f'[mcp.servers.one]\ncommand = "{sys.executable}"\nargs = ["-m", "tests.mcp_server"]\ncwd = "{PROJECT}"\n'
    toml = model_toml(wire, models.base_url(wire), extra=program)
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


def seen(wire: Wire, body: dict[str, Any]) -> tuple[str, list[Any]]:
    """The words of the result that has the picture, and the images of the request where they belong."""
    if wire == "openai":
        place = next(at for at, message in enumerate(body["messages"]) if "before" in str(message["content"]))
        following = body["messages"][place + 1]
        assert following["role"] == "user"
        return body["messages"][place]["content"], [
            part["image_url"]["url"] for part in following["content"] if part["type"] == "image_url"
        ]
    contents = [message["content"] for message in body["messages"] if not isinstance(message["content"], str)]
    results = [block for content in contents for block in content if block["type"] == "tool_result"]
    words, *images = next(result["content"] for result in results if "before" in str(result["content"]))
    return words["text"], [f"data:{each['source']['media_type']};base64,{each['source']['data']}" for each in images]


def test_a_model_is_shown_the_image_of_a_tool_and_so_is_the_heir_of_its_run(
    wire: Wire, stack: Stack, models: ScriptedModelServer
) -> None:
    """In the provider's form, beside the words; stored before it was shown, so that a killed worker takes nothing
    along; and still there for the next message."""
    gateway, (worker,) = stack.gateway(), stack.workers()
    wait_until(lambda: "mcp_server_up" in text_of(worker), "the server is connected")
    with client(gateway) as http, ThreadPoolExecutor(1) as beside:
        asked = beside.submit(http.post, "/api/v1/chat", json={"message": "[[script:look]]"})
        wait_until(lambda: len(models.requests) == 2, "the model has the image")
        worker.kill()
        stack.workers()
        assert asked.result(60).json()["reply"] == "I saw a pixel."
        assert http.post("/api/v1/chat", json={"message": "[[script:again]]"}).json()["reply"] == "I still see it."
    assert len(models.requests) == 4
    for request in list(models.requests)[1:]:
        words, images = seen(wire, request["body"])
        assert words.splitlines()[:2] == ["before", "[image of type image/png, 67 bytes]"]
        assert images == [f"data:image/png;base64,{ENCODED}"]
