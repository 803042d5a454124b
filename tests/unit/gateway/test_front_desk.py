"""Who waits at the front desk: nothing of what they sent is kept meanwhile."""

import asyncio
import base64
import gc
from datetime import timedelta
from typing import Any, cast

import orjson
import pytest
from starlette.requests import Request

from services.gateway.edge.bodies import Bodies, Room
from services.gateway.edge.door import KEY
from services.gateway.edge.intake import ChatManner, Intake
from services.gateway.edge.openai_api import OpenAIApi
from services.gateway.rules.openai_chat import CompletionBody, ImagePart
from services.gateway.rules.openai_responses import InputImage, ResponseBody
from services.gateway.rules.openai_turns import Asked, Turn
from shared.adapters.inmemory.bus import InMemoryBus
from shared.adapters.inmemory.control import InMemoryControl
from shared.domain.api_key import ApiKey
from shared.domain.attachment import Attachment
from shared.domain.run import NewRun
from shared.ports.history import History
from tests.builders import final_write
from tests.front_desks import front_desk
from tests.runs_worlds import InMemoryWorld

LARGE = 100_000
ROOM = 10 * LARGE


@pytest.fixture
def api(world: InMemoryWorld) -> OpenAIApi:
    bus = InMemoryBus(world.clock)
    desk = front_desk(world, bus)
    manner = ChatManner(timedelta(seconds=30), 10_000_000, timedelta(hours=1), 100, timedelta(hours=1))
    intake = Intake(world.inbox, bus, InMemoryControl(), manner, Room(ROOM))
    return OpenAIApi(desk, intake, world.inbox, cast(History, desk.transcripts), Bodies("Testbert"), "Testbert")


def request(path: str, body: bytes) -> Request:
    """One whose body is there, and whose client stays."""
    pieces = [body]

    async def receive() -> dict[str, Any]:
        if pieces:
            return {"type": "http.request", "body": pieces.pop(), "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError("it stays")

    del body
    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b"", KEY: ApiKey("ada")}
    return Request(scope, receive)


def with_picture(path: str) -> bytes:
    """A body with an image of some hundred kilobytes."""
    url = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(3 * LARGE)).decode()
    if path.endswith("completions"):
        part = {"type": "image_url", "image_url": {"url": url}}
        return orjson.dumps({"model": "lucyd", "messages": [{"role": "user", "content": [part]}]})
    item = {"role": "user", "content": [{"type": "input_image", "image_url": url}]}
    return orjson.dumps({"model": "lucyd", "input": [item]})


def held() -> list[object]:
    """What of requests is in memory: their parts by their types, and large texts that something holds."""
    gc.collect()
    found = gc.get_objects()
    parts = (NewRun, Attachment, Asked, Turn, CompletionBody, ResponseBody, ImagePart, InputImage)
    texts = [value for each in found if type(each) is dict for value in list(each.values()) if type(value) is str]
    large = [text for text in texts if len(text) > LARGE and text.startswith("data:image")]
    return [*(each for each in found if isinstance(each, parts)), *large]


def kept(before: list[object]) -> int:
    """How much of that came since; other tests in this process have examples of their own."""
    known = {id(each) for each in before}
    return sum(id(each) not in known for each in held())


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
async def test_who_waits_keeps_nothing_of_the_body(world: InMemoryWorld, api: OpenAIApi, path: str) -> None:
    """Many may wait, for minutes, and a body may have a hundred megabytes of images."""
    serve = api.completions if path.endswith("completions") else api.responses
    before = held()
    waits = asyncio.create_task(serve(request(path, with_picture(path))))
    async with asyncio.timeout(60):
        while not world.tables.runs:
            await asyncio.sleep(0)
        while kept(before):
            await asyncio.sleep(0.01)
    assert not waits.done()
    with api.intake.room.place() as place:
        place.take(8 * LARGE)  # nobody else's is taken; some is kept for small ones
    assert len(world.tables.blobs) == 1
    (run,) = world.tables.runs.values()
    claim = await world.claim(run.conversation)
    await world.store(claim, final_write(claim, reply="A cat."))
    await api.desk.waiting.look()
    answer = await waits
    assert (answer.status_code, b"A cat." in bytes(answer.body)) == (200, True)
