"""A message to a person over HTTP: it goes the way of all deliveries, and its sender hears what became of it."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import pytest

from shared.adapters.postgres.pool import Database
from shared.domain.delivery import Delivery
from tests.api_keys import bearer, make_key
from tests.deliveries_worlds import PostgresDeliveriesWorld
from tests.stack import Process, Stack, async_client, open_stack

SEND = "/api/v1/outbound/send"
CAT = b"\x89PNG\r\n\x1a\n" + b"cat\0" * 25
FILE = {"filename": "tea.txt", "content_type": "text/plain", "data_b64": "dGVh"}
"""As the original's clients say it."""

CHATS = "insert into conversations (key, channel, principal, contact) values (%s, 'telegram', %s, %s)"


@pytest.fixture
def stack(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    toml = '[agent]\nname = "Testbert"\n[telegram]\ncontacts = { Anna = 7, Cleo = 8 }\n'
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


@pytest.fixture
async def http(stack: Stack) -> AsyncIterator[httpx2.AsyncClient]:
    gateway: Process = await asyncio.to_thread(stack.gateway)
    await asyncio.to_thread(stack.workers)
    async with async_client(gateway) as opened:
        yield opened


class Bridge:
    """Leads the channel, and sends when the test says so."""

    def __init__(self, database: Database) -> None:
        self.world = PostgresDeliveriesWorld(database)
        self.me: UUID | None = None
        self.epoch = 0

    async def lead(self) -> None:
        self.me = await self.world.hire()
        self.epoch = await self.world.deliveries.lead(self.me) or 0

    async def next(self) -> Delivery:
        assert self.me is not None
        async with asyncio.timeout(20):
            while True:
                claimed = await self.world.deliveries.claim(bridge=self.me, epoch=self.epoch, in_hand=(), limit=1)
                if claimed:
                    return claimed[0]
                await asyncio.sleep(0.02)


@pytest.fixture
async def bridge(database: Database) -> Bridge:
    await database.rows(CHATS, ("telegram:7", "telegram:7", "Anna"))
    return Bridge(database)


async def answered(reply: Awaitable[httpx2.Response], status: int) -> Any:
    told = await reply
    assert told.status_code == status, told.text
    return told.json()


async def test_a_long_message_goes_out_in_its_order_and_once(http: httpx2.AsyncClient, bridge: Bridge) -> None:
    """Who asks again under the same key is told the same, and the person reads it once. No model stands beside it."""
    await bridge.lead()
    body = {"text": "a" * 4000 + " " + "b" * 10}
    once = {"Idempotency-Key": "good-morning"}
    asking = [asyncio.create_task(answered(http.post(SEND, json=body, headers=once), 200)) for _ in range(2)]
    for letter in "ab":
        delivery = await bridge.next()
        assert set(delivery.text) == {letter}
        assert await bridge.world.deliveries.sent(delivery, external_id="1")
    first, second = await asyncio.gather(*asking)
    assert (first["delivered"], first["conversation"], len(first["deliveries"])) == (True, "telegram:7", 2)
    assert second == first
    assert await answered(http.post(SEND, json=body, headers=once), 200) == first
    await answered(http.post(SEND, json={"text": "other"}, headers=once), 409)
    (session,) = (await answered(http.get("/api/v1/sessions"), 200))["sessions"]
    assert (session["contact"], session["model"], session["cost"]) == ("Anna", None, 0)


async def test_a_repeat_is_no_new_question(http: httpx2.AsyncClient, bridge: Bridge, database: Database) -> None:
    """What was put in under a key stays where it was put in, whoever has written since then."""
    await bridge.lead()
    once = {"Idempotency-Key": "good-morning"}
    asking = asyncio.create_task(answered(http.post(SEND, json={"text": "hello"}, headers=once), 200))
    delivery = await bridge.next()
    await database.rows(CHATS, ("telegram:9", "telegram:9", "Bob"))
    again = asyncio.create_task(answered(http.post(SEND, json={"text": "hello"}, headers=once), 200))
    await asyncio.sleep(0.3)
    assert not again.done()
    assert await bridge.world.deliveries.sent(delivery, external_id="1")
    assert (await asking)["deliveries"] == (await again)["deliveries"]


async def test_the_longest_text_goes_through_the_door_however_it_is_written(
    http: httpx2.AsyncClient, bridge: Bridge, database: Database
) -> None:
    """JSON may write each character as twelve."""
    await bridge.lead()
    asking = asyncio.create_task(http.post(SEND, content=json.dumps({"text": "\N{OWL}" * 40_000})))
    assert set((await bridge.next()).text) == {"\N{OWL}"}
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def test_files_go_out_behind_the_text_and_are_all_named(
    http: httpx2.AsyncClient, bridge: Bridge, database: Database
) -> None:
    """In their order, once however often they are asked for; the agent remembers each by a line."""
    await bridge.lead()
    cat = {"filename": "photos/cat.png", "content_type": "image/png", "data": base64.b64encode(CAT).decode()}
    body = {"text": "Look.", "attachments": [cat, FILE]}
    once = {"Idempotency-Key": "cat"}
    asking = [asyncio.create_task(answered(http.post(SEND, json=body, headers=once), 200)) for _ in range(2)]
    seen = []
    for _ in range(3):
        delivery = await bridge.next()
        file = delivery.file
        seen.append((str(delivery.id), delivery.text, file and (file.name, file.media_type, file.size, file.shown_as)))
        if file is not None:
            data = await database.value("select data from blobs where id = %s", (file.blob,))
            assert bytes(data) == {"cat.png": CAT, "tea.txt": b"tea"}[file.name]
        assert await bridge.world.deliveries.sent(delivery, external_id="1")
    first, second = await asyncio.gather(*asking)
    assert [(text, file) for _, text, file in seen] == [
        ("Look.", None),
        ("", ("cat.png", "image/png", len(CAT), "photo")),
        ("", ("tea.txt", "text/plain", 3, "document")),
    ]
    assert first["deliveries"] == second["deliveries"] == [id for id, _, _ in seen]
    assert await answered(http.post(SEND, json=body, headers=once), 200) == first
    other = {**body, "attachments": [FILE, cat]}
    await answered(http.post(SEND, json=other, headers=once), 409)
    remembered = await database.value("select body ->> 'text' from messages where role = 'assistant'")
    assert remembered == "Look.\n[image: cat.png, image/png, 108 bytes]\n[attachment: tea.txt, text/plain, 3 bytes]"


@pytest.mark.parametrize("text", ["", "A cup of tea."])
async def test_a_single_file_has_the_text_below_it(http: httpx2.AsyncClient, bridge: Bridge, text: str) -> None:
    """As a person would send it; and it may go without a word."""
    await bridge.lead()
    asking = asyncio.create_task(answered(http.post(SEND, json={"text": text, "attachments": [FILE]}), 200))
    delivery = await bridge.next()
    assert (delivery.text, delivery.file and delivery.file.name) == (text, "tea.txt")
    assert await bridge.world.deliveries.sent(delivery, external_id="1")
    assert (await asking)["deliveries"] == [str(delivery.id)]


async def test_its_sender_hears_when_it_did_not_arrive(http: httpx2.AsyncClient, bridge: Bridge) -> None:
    """Refused, or in doubt: not delivered, in either case."""
    await bridge.lead()
    asking = asyncio.create_task(answered(http.post(SEND, json={"text": "hello", "chat": "ANNA"}), 502))
    await bridge.world.deliveries.fail(await bridge.next(), reason="blocked")
    told = await asking
    assert (told["delivered"], told["error"]) == (False, "the channel has refused it")
    asking = asyncio.create_task(answered(http.post(SEND, json={"text": "hello", "chat": "7"}), 502))
    await bridge.world.deliveries.doubt(await bridge.next(), reason="broken off")
    assert "nobody can tell" in (await asking)["error"]


async def test_what_can_not_be_sent_is_refused_plainly(
    http: httpx2.AsyncClient, bridge: Bridge, stack: Stack, database: Database
) -> None:
    """Each with its own sentence, and nothing is put in."""
    assert "no bridge" in (await answered(http.post(SEND, json={"text": "hello"}), 503))["error"]
    await bridge.lead()
    for body, status in (
        ({}, 400),
        ({"text": " "}, 400),
        ({"text": "x" * 40_001}, 400),
        ({"text": "x", "channel": "pigeon"}, 400),
        ({"text": "x", "attachments": [{"filename": "a"}]}, 400),
        ({"text": "x", "attachments": [{"content_type": "text/plain"}]}, 400),
        ({"text": "x", "attachments": [{"content_type": "text/plain", "data": "dGVh!"}]}, 400),
        ({"text": "x", "attachments": [{"content_type": "text/plain", "data": ""}]}, 400),
        ({"text": "x", "attachments": [FILE] * 11}, 400),
        ({"text": "", "attachments": []}, 400),
        ({"text": "x", "chat": "8"}, 404),
        ({"text": "x", "chat": "telegram:8"}, 404),
        ({"text": "x", "chat": "Cleo"}, 404),
    ):
        assert (await answered(http.post(SEND, json=body), status))["error"], body
    await database.rows(CHATS, ("telegram:9", "telegram:9", "Cleo"))  # so he calls himself
    await answered(http.post(SEND, json={"text": "x", "chat": "cleo"}), 404)
    assert "several chats" in (await answered(http.post(SEND, json={"text": "x"}), 400))["error"]
    theirs = bearer(make_key(stack.database_url, "theirs", "admin"))
    await answered(http.post(SEND, json={"text": "x", "chat": "7"}, headers=theirs), 404)
    assert await database.value("select count(*) from runs") == 0
    assert await database.value("select count(*) from deliveries") == 0
