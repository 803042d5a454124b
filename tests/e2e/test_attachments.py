"""A picture comes with a message: over HTTP, through Postgres, to the model, over kills and until its time is over."""

import asyncio
import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.e2e.proofs import rows
from tests.scripted_model_server import Asked, Fail, Hang, Say, Script, ScriptedModelServer, Step, Use, Wire
from tests.stack import Stack, async_client, client, model_toml, open_stack, wait_until

PNG = b"\x89PNG\r\n\x1a\n" + os.urandom(300_000)
CAT = {"content_type": "image/png", "filename": "cat.png", "data": base64.b64encode(PNG).decode()}
NOTES = {"content_type": "text/plain", "filename": "notes.txt", "data": base64.b64encode(b"buy milk").decode()}
LINE = "[image: cat.png, image/png, 300 kB]"
SIGNAL = "touch begun.txt; while [ ! -e go.txt ]; do sleep 0.05; done; echo fetched"
WIRES: tuple[Wire, ...] = ("anthropic", "openai")


def picky(asked: Asked) -> Step:
    """A provider that can't read what it is shown."""
    if '"type":"image"' in orjson.dumps(asked.body).decode():
        return Fail(400, message="Could not process image")
    return Say("I can't see it.")


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """One that sees at once, one that takes its time, and one that runs an errand."""
    scripts: dict[str, Script] = {
        "picky": picky,
        "slow": [Hang(2.0), Say("A cat, I think.")],
        "errand": [Use([("exec", {"command": SIGNAL})]), Say("It is a cat.")],
    }
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """Nothing runs yet."""
    with open_stack(tmp_path, database_url, redis_url, model_toml("anthropic", models.base_url("anthropic"))) as opened:
        yield opened


def images(request: Any) -> list[str]:
    """The base64 of all images in a request to a model, on either wire."""
    found: list[str] = []
    for message in request["body"]["messages"]:
        for part in message["content"] if isinstance(message["content"], list) else ():
            match part:
                case {"type": "image", "source": {"media_type": "image/png", "data": data}}:
                    found.append(data)
                case {"type": "image_url", "image_url": {"url": url}}:
                    found.append(url.removeprefix("data:image/png;base64,"))
    return found


@pytest.mark.parametrize("wire", WIRES)
def test_the_model_sees_what_was_sent(
    wire: Wire, models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str
) -> None:
    """With its words, in the next message too, and once however often the client asks; the history only names it."""
    with open_stack(tmp_path, database_url, redis_url, model_toml(wire, models.base_url(wire))) as stack:
        gateway = stack.gateway()
        stack.workers()
        with client(gateway) as http:
            asked = {"message": "look", "attachments": [CAT, NOTES]}
            key = {"Idempotency-Key": "one"}
            reply = http.post("/api/v1/chat", json=asked, headers=key).json()
            again = http.post("/api/v1/chat", json=asked, headers=key)
            other = http.post("/api/v1/chat", json=asked | {"attachments": [NOTES]}, headers=key)
            assert (again.json()["run_id"], other.status_code) == (reply["run_id"], 409)
            assert images(models.requests[0]) == [CAT["data"]]
            assert "buy milk" in reply["reply"]  # the model says what it read
            assert LINE in reply["reply"]

            http.post("/api/v1/chat", json={"message": "and now?"})
            assert images(models.requests[1]) == [CAT["data"]]
            history = http.get(f"/api/v1/sessions/{reply['session_id']}/history").json()["events"]
            assert history[0]["content"] == f"look\n{LINE}\n[document: notes.txt, text/plain, 8 bytes]"
        stored = rows(database_url, "select data from blobs order by position")
        assert [bytes(row[0]) for row in stored] == [PNG, b"buy milk"]
        (longest,) = rows(database_url, "select max(length(body::text)) from messages")[0]
        assert longest < 2000


def test_what_can_not_be_taken_is_named_and_changes_nothing(stack: Stack) -> None:
    """The original left such items out without a word."""
    gateway = stack.gateway()
    with client(gateway) as http:
        for wrong, says in (
            (CAT | {"data": "???"}, "attachments[1] is not base64"),
            ({"content_type": "image/png"}, '"attachments[1].data" field is required'),
        ):
            refused = http.post("/api/v1/chat", json={"message": "look", "attachments": [CAT, wrong]})
            assert (refused.status_code, refused.json()["error"]) == (400, says)
        many = http.post("/api/v1/chat/stream", json={"message": "look", "attachments": [NOTES] * 11})
        assert "at most 10 attachments" in many.json()["error"]
    assert rows(stack.database_url, "select count(*) from runs union all select count(*) from blobs") == [(0,), (0,)]


def test_an_attachment_of_the_largest_size_comes_in_as_it_is_configured(stack: Stack) -> None:
    """The original's limit for bodies kept out what its limit for attachments allowed."""
    gateway = stack.gateway()
    stack.workers()
    largest = os.urandom(10_485_760)
    sent = {"content_type": "application/pdf", "data": base64.b64encode(largest).decode()}
    with client(gateway) as http:
        reply = http.post("/api/v1/chat", json={"message": "read", "attachments": [sent]})
        assert "[attachment: application/pdf, 10.5 MB]" in reply.json()["reply"]
    ((stored,),) = rows(stack.database_url, "select data from blobs")
    assert bytes(stored) == largest


async def test_another_worker_shows_it_when_the_first_is_killed(stack: Stack, models: ScriptedModelServer) -> None:
    """Nothing of it was in the worker alone."""
    gateway = await asyncio.to_thread(stack.gateway)
    (first,) = await asyncio.to_thread(stack.workers)
    async with async_client(gateway) as http:
        asked = {"message": "[[script:slow]]", "attachments": [CAT]}
        waiting = asyncio.create_task(http.post("/api/v1/chat", json=asked))
        await asyncio.to_thread(wait_until, lambda: sum(models.calls.values()) == 1, "the model was asked")
        await asyncio.to_thread(first.kill)
        await asyncio.to_thread(stack.workers)
        assert (await waiting).json()["reply"] == "A cat, I think."
    assert [images(request) for request in models.requests] == [[CAT["data"]], [CAT["data"]]]
    assert rows(stack.database_url, "select count(*) from blobs") == [(1,)]


async def test_a_steering_picture_is_seen_in_the_run_under_way(stack: Stack, models: ScriptedModelServer) -> None:
    """It is taken in with its text, between two turns."""
    gateway = await asyncio.to_thread(stack.gateway)
    await asyncio.to_thread(stack.workers)
    async with async_client(gateway) as http:
        errand = asyncio.create_task(http.post("/api/v1/chat", json={"message": "[[script:errand]]"}))
        begun = stack.workspace / "begun.txt"
        await asyncio.to_thread(wait_until, begun.exists, "the errand has begun")
        asked = {"message": "this one, [[script:errand]]", "attachments": [CAT], "when_busy": "steer"}
        steering = asyncio.create_task(http.post("/api/v1/chat", json=asked))
        await asyncio.to_thread(
            wait_until, lambda: rows(stack.database_url, "select count(*) from runs") == [(2,)], "it is accepted"
        )
        (stack.workspace / "go.txt").touch()
        first, second = (await errand).json(), (await steering).json()
    assert first["reply"] == second["reply"]
    assert [images(request) for request in list(models.requests)[:2]] == [[], [CAT["data"]]]


def test_what_a_machine_sends_is_seen_too(stack: Stack, models: ScriptedModelServer) -> None:
    """A camera at the door has no person who would describe the picture."""
    gateway = stack.gateway()
    stack.workers()
    with client(gateway) as http:
        told = http.post("/api/v1/notify", json={"message": "somebody rings", "attachments": [CAT]})
        assert told.status_code == 202
        wait_until(lambda: models.requests, "the model was asked")
        assert images(models.requests[0]) == [CAT["data"]]
        refused = http.post("/api/v1/inbound/email", json={"message": "look", "attachments": [NOTES] * 11})
        assert refused.status_code == 400


def test_nothing_is_left_of_it_when_its_time_is_over(
    models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str
) -> None:
    """By the scheduler, as it runs; the conversation goes on without it."""
    toml = model_toml("anthropic", models.base_url("anthropic"), extra="[retention]\nattachments_days = 0.00002\n")
    with open_stack(tmp_path, database_url, redis_url, toml) as stack:
        gateway = stack.gateway()
        stack.workers()
        with client(gateway) as http:
            http.post("/api/v1/chat", json={"message": "look", "attachments": [CAT]})
            assert rows(database_url, "select count(*) from blobs") == [(1,)]
            stack.start("scheduler")
            wait_until(lambda: rows(database_url, "select 1 from blobs") == [], "it is gone", within=60)
            assert http.post("/api/v1/chat", json={"message": "and now?"}).json()["reply"]
        assert [images(request) for request in models.requests] == [[CAT["data"]], []]


def test_a_broken_image_spoils_neither_its_message_nor_the_next(stack: Stack, models: ScriptedModelServer) -> None:
    """Providers refuse the whole request for it, and the history has it from then on."""
    gateway = stack.gateway()
    stack.workers()
    with client(gateway) as http:
        body = {"message": "[[script:picky]]", "attachments": [CAT]}
        first = http.post("/api/v1/chat", json=body).json()
        second = http.post("/api/v1/chat", json={"message": "[[script:picky]] and now?"}).json()
    assert (first["reply"], second["reply"]) == ("I can't see it.", "I can't see it.")
    assert [len(images(request)) for request in models.requests] == [1, 0, 0]  # it is known for what it is
    assert "this image is not shown" in str(models.requests[2])
