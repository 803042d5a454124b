"""What a request brings is held from its first byte until it is stored, within bounds, and no longer."""

import asyncio
import base64
import gc
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import orjson
import pytest
from starlette.requests import Request
from starlette.responses import Response

from services.gateway.edge.bodies import Bodies, Room
from services.gateway.edge.door import KEY
from services.gateway.edge.enclosed_files import EnclosedFiles
from services.gateway.edge.intake import ChatManner, Intake, Read
from services.gateway.edge.notify_api import NotifyApi
from services.gateway.rules.attachments import AttachmentLimits
from services.gateway.rules.chat_request import read_chat
from shared.adapters.inmemory.bus import InMemoryBus
from shared.adapters.inmemory.control import InMemoryControl
from shared.domain.api_key import ApiKey
from shared.domain.attachment import Attachment
from shared.domain.run import Accepted, NewRun
from shared.errors import TryLater
from tests.builders import final_write
from tests.front_desks import front_desk
from tests.runs_worlds import InMemoryWorld

MANNER = ChatManner(
    timedelta(seconds=30),
    64_000_000,
    timedelta(hours=1),
    100,
    timedelta(hours=1),
    attachments=AttachmentLimits(size=64_000_000),
)
PHOTO = b"\x89PNG\r\n\x1a\n of a cat" + bytes(range(256)) * 1_500
HELD_UP = 0.12
"""Seconds of the loop's own work without a pause. A body of 20 MB is four times as many when it is read there."""

READ: Read = lambda body, key: read_chat(body, key=key)  # noqa: E731


def request(data: bytes, **headers: str) -> Request:
    """One that brings a photo; its client stays."""
    content = {"content_type": "image/png", "data": base64.b64encode(data).decode()}
    body = orjson.dumps({"message": "look", "attachments": [content]})
    pieces = [body[start : start + 65_536] for start in range(0, len(body), 65_536)][::-1]

    async def receive() -> dict[str, Any]:
        if pieces:
            return {"type": "http.request", "body": pieces.pop(), "more_body": bool(pieces)}
        await asyncio.Event().wait()
        raise AssertionError("it stays")

    del body, content, data
    given = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": given, "query_string": b"", KEY: ApiKey("ada")}
    return Request(scope, receive)


def held() -> int:
    """How many photos anybody holds."""
    gc.collect()
    return sum(isinstance(each, Attachment) and each.data == PHOTO for each in gc.get_objects())


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.01)


async def test_who_waits_for_a_reply_to_a_bridge_holds_nothing_of_the_message(world: InMemoryWorld) -> None:
    """A model may think for minutes, and hundreds may wait with a photo each."""
    bus, room = InMemoryBus(world.clock), Room(1_000_000)
    desk = front_desk(world, bus)
    intake = Intake(world.inbox, bus, InMemoryControl(), MANNER, room)
    api = NotifyApi(intake, desk, Bodies("Testbert"), "Nico", "", "Sorry.", EnclosedFiles(InMemoryWorld().reply_files))
    asking: asyncio.Task[Response] = asyncio.create_task(api.inbound_telegram(request(PHOTO)))
    await until(lambda: len(world.tables.runs) == 1)
    await asyncio.sleep(0.05)
    assert held() == 0
    with room.place() as place:
        place.take(875_000)  # all that large ones may have

    claim = await world.claim("http:ada:Nico")
    await world.store(claim, final_write(claim))
    await desk.waiting.look()
    assert (await asking).status_code == 200


class SlowInbox:
    """An inbox behind a store that does not answer yet."""

    def __init__(self, world: InMemoryWorld) -> None:
        self.answers = asyncio.Event()
        self._inbox = world.inbox

    async def accept(self, new: NewRun) -> Accepted:
        """See ``Inbox.accept``."""
        await self.answers.wait()
        return await self._inbox.accept(new)


async def test_what_is_not_stored_yet_keeps_its_place_in_the_room(world: InMemoryWorld) -> None:
    """While Postgres is slow the bodies that have come pile up; that is when the room is for."""
    inbox = SlowInbox(world)
    intake = Intake(inbox, InMemoryBus(world.clock), InMemoryControl(), MANNER, Room(1_000_000))
    with await intake.receive(request(PHOTO), READ) as message:
        storing = asyncio.create_task(message.accept())
        await asyncio.sleep(0)
        with pytest.raises(TryLater):
            await intake.receive(request(PHOTO), READ)
        inbox.answers.set()
        assert (await storing).run == message.run
        with await intake.receive(request(PHOTO), READ) as other:
            assert other.run != message.run


async def test_a_large_body_holds_nobody_up(world: InMemoryWorld) -> None:
    """What one message brings is read, decoded and digested while all others are answered."""
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            before = time.thread_time()  # of the loop's thread: what others do on this machine is not counted
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - before)

    intake = Intake(world.inbox, InMemoryBus(world.clock), InMemoryControl(), MANNER)
    large = request(PHOTO * 39, **{"idempotency-key": "one"})
    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0.01)
    with await intake.receive(large, READ):
        await asyncio.sleep(0.01)
    ticking.cancel()
    assert longest < HELD_UP
