"""What a message asks of a busy conversation, over HTTP and with real processes."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.e2e.proofs import check_histories, rows
from tests.scripted_model_server import Hang, Say, Script, ScriptedModelServer, Use
from tests.stack import Stack, async_client, model_toml, open_stack, wait_until

pytestmark = pytest.mark.alone

ERRAND = "touch begun.txt; while [ ! -e go.txt ]; do sleep 0.05; done; echo fetched"


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """An errand with a command in it, what comes of it when it is steered, and a long silence."""
    scripts: dict[str, Script] = {
        "errand": [Use([("exec", {"command": ERRAND})], text="I go."), Say("I have it.")],
        "blue": [Say("I have a blue one.")],
        "silence": [Hang(30), Say("never")],
    }
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """Nothing runs yet."""
    with open_stack(tmp_path, database_url, redis_url, model_toml("anthropic", models.base_url("anthropic"))) as opened:
        yield opened


@pytest.fixture
async def http(stack: Stack) -> AsyncIterator[httpx2.AsyncClient]:
    """A gateway and two workers."""
    gateway = await asyncio.to_thread(stack.gateway)
    await asyncio.to_thread(stack.workers, 2)
    async with async_client(gateway) as client:
        yield client


def chat(http: httpx2.AsyncClient, message: str, when_busy: str = "queue") -> "asyncio.Task[httpx2.Response]":
    return asyncio.create_task(http.post("/api/v1/chat", json={"message": message, "when_busy": when_busy}))


async def accepted(stack: Stack, count: int) -> None:
    def are_there() -> bool:
        return rows(stack.database_url, "select count(*) from runs") == [(count,)]

    await asyncio.to_thread(wait_until, are_there, f"{count} messages are accepted")


def texts(request: Any) -> str:
    return str(request["body"]["messages"])


async def test_a_steering_message_changes_what_is_under_way(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """Absorbed between two turns, with what stood before it; all three callers get the one reply."""
    errand = chat(http, "[[script:errand]] fetch me a book")
    await asyncio.to_thread(wait_until, (stack.workspace / "begun.txt").exists, "the errand is under way")
    queued = chat(http, "it is for my sister")
    await accepted(stack, 2)
    steering = chat(http, "[[script:blue]] a blue one", "steer")
    await accepted(stack, 3)
    (stack.workspace / "go.txt").touch()
    replies = [(await task).json() for task in (errand, queued, steering)]

    assert [reply["reply"] for reply in replies] == ["I have a blue one."] * 3
    assert len({reply["run_id"] for reply in replies}) == 3
    assert models.calls.total() == 2
    last = texts(models.requests[-1])
    assert last.index("fetched") < last.index("it is for my sister") < last.index("a blue one")
    assert rows(stack.database_url, "select state, count(*) from runs group by state order by state") == [
        ("done", 1),
        ("merged", 2),
    ]
    stream = await http.get(f"/api/v1/runs/{replies[2]['run_id']}/events")
    assert stream.text.count("event: merged") == 1
    body = (await http.get(f"/api/v1/runs/{replies[2]['run_id']}")).json()
    assert body["outcome"]["merged_into"] == replies[0]["run_id"]


async def test_a_steering_message_that_comes_too_late_is_answered_by_itself(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """During the last turn there is no step left that could absorb it."""
    models.latency = 1.0
    first = chat(http, "hello")
    await asyncio.to_thread(wait_until, lambda: models.calls.total() == 1, "the model is asked")
    steering = chat(http, "and this?", "steer")
    await accepted(stack, 2)
    assert "hello" in (await first).json()["reply"]
    assert "and this?" in (await steering).json()["reply"]
    assert check_histories(stack.database_url) == 1


async def test_an_interrupting_message_takes_the_place_of_what_is_under_way(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """Who waited for the old one is told so at once; what was queued is answered after the new one."""
    silence = chat(http, "[[script:silence]]")
    await asyncio.to_thread(wait_until, lambda: models.calls.total() == 1, "the model is asked")
    queued = chat(http, "later")
    await accepted(stack, 2)
    began = time.monotonic()
    interrupt = chat(http, "now", "interrupt")
    told = (await silence).json()
    assert (told["reply"], told["error"]) == ("", "A newer message took its place.")
    assert "now" in (await interrupt).json()["reply"]
    took = time.monotonic() - began
    print(f"an interrupting message was answered after {took:.2f} s")  # noqa: T201 - a figure of the report
    assert took < 10
    assert "later" in (await queued).json()["reply"]
    order = rows(stack.database_url, "select message ->> 'text' from runs where state = 'done' order by claimed_at")
    assert order == [("now",), ("later",)]
    kept = rows(stack.database_url, "select role from messages where not dropped order by ordinal")
    assert kept == [("user",), ("assistant",)] * 2  # the interrupted message is as if never said


async def test_a_message_that_does_not_want_to_wait_is_refused(
    stack: Stack, models: ScriptedModelServer, http: httpx2.AsyncClient
) -> None:
    """409, nothing is stored, and the same message is taken when the conversation is free."""
    models.latency = 1.0
    first = chat(http, "hello")
    await accepted(stack, 1)
    refused = await chat(http, "now or never", "reject")
    assert refused.status_code == 409
    assert refused.json()["error"]
    assert (await first).is_success
    assert rows(stack.database_url, "select count(*) from runs") == [(1,)]
    assert "now or never" in (await chat(http, "now or never", "reject")).json()["reply"]
    assert (await chat(http, "x", "whenever")).status_code == 400
