"""A run is ended over HTTP, with real processes: soon, once, and whatever its worker does meanwhile."""

import asyncio
import contextlib
import json
import secrets
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from shared.actions.cancel_run import CANCELLED
from tests.e2e.proofs import rows
from tests.scripted_model_server import Hang, Say, Script, ScriptedModelServer, Use
from tests.stack import Stack, async_client, model_toml, open_stack, text_of, wait_until

pytestmark = pytest.mark.alone

SOON = 2.5
"""Seconds in which a run ends whose worker and tools cooperate."""

FORCED = 5.0
"""Seconds in which it ends in any case."""

SLEEP = "touch asleep; exec sleep 60.{mark}"
LONG = "All work and no play makes a long answer. " * 40


@pytest.fixture
def mark() -> str:
    """What tells this test's sleeper from all others: in a sandbox a process knows another number than outside."""
    return f"{secrets.randbelow(10**9):09}"


@pytest.fixture
def models(mark: str) -> Iterator[ScriptedModelServer]:
    """Answers that take their time, and an act that does."""
    scripts: dict[str, Script] = {
        "story": [Say(LONG)],
        "hang": [Hang(30), Say("That took a while.")],
        "sleep": [Use([("exec", {"command": SLEEP.format(mark=mark)})], text="Let me rest."), Say("Rested.")],
    }
    with ScriptedModelServer(scripts, chunks=200, chunk_interval=0.05).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """Nothing runs yet."""
    with open_stack(tmp_path, database_url, redis_url, model_toml("anthropic", models.base_url("anthropic"))) as opened:
        yield opened


@pytest.fixture
async def doors(stack: Stack) -> AsyncIterator[tuple[httpx2.AsyncClient, httpx2.AsyncClient]]:
    """Two gateways."""
    left, right = await asyncio.to_thread(stack.gateway), await asyncio.to_thread(stack.gateway)
    async with async_client(left) as one, async_client(right) as other:
        yield one, other


def state_of(stack: Stack, run: str) -> tuple[str, float]:
    """State, and seconds from the first time it was asked to end until it had ended."""
    query = (
        "select state, extract(epoch from finished_at - coalesce(cancel_asked_at, finished_at))::float8"
        " from runs where id = %s::uuid"
    )
    ((state, took),) = rows(stack.database_url, query, run)
    return state, took


async def running(stack: Stack, condition: str = "state = 'running'") -> str:
    """The id of the one run of which this holds, once it does."""
    found: list[tuple[Any, ...]] = []

    def is_there() -> bool:
        found[:] = rows(stack.database_url, f"select id::text from runs where {condition}")  # noqa: S608 - our own words
        return len(found) == 1

    await asyncio.to_thread(wait_until, is_there, condition)
    return str(found[0][0])


class Reader:
    """A client that follows a stream and notes when what came."""

    def __init__(self, http: httpx2.AsyncClient, message: str) -> None:
        self.events: list[tuple[float, str, dict[str, Any]]] = []
        self.task = asyncio.create_task(self._read(http, message))

    async def _read(self, http: httpx2.AsyncClient, message: str) -> None:
        kind = ""
        async with http.stream("POST", "/api/v1/chat/stream", json={"message": message, "sender": "reader"}) as reply:
            async for line in reply.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    self.events.append((time.monotonic(), kind, json.loads(value)))

    async def until(self, kind: str) -> None:
        async with asyncio.timeout(15):
            while not any(event == kind for _, event, _ in self.events):
                await asyncio.sleep(0.01)

    @property
    def run(self) -> str:
        return str(self.events[0][2]["run_id"])


async def cancel(http: httpx2.AsyncClient, run: str) -> tuple[int, dict[str, Any], float]:
    began = time.monotonic()
    reply = await http.post(f"/api/v1/runs/{run}/cancel")
    return reply.status_code, reply.json(), time.monotonic() - began


async def test_a_cancel_at_another_gateway_ends_a_stream_in_the_middle_of_a_word(
    stack: Stack, models: ScriptedModelServer, doors: tuple[httpx2.AsyncClient, httpx2.AsyncClient]
) -> None:
    """The reader hears it, the provider's stream is hung up on, and the call is booked as a guess."""
    here, there = doors
    await asyncio.to_thread(stack.workers)
    reader = Reader(here, "[[script:story]]")
    await reader.until("delta")
    asked_at = time.monotonic()
    status, body, took = await cancel(there, reader.run)
    await asyncio.wait_for(reader.task, 20)
    told_at, kind, data = reader.events[-1]
    print(f"cancel while streaming: stored {state_of(stack, reader.run)[1]:.3f} s, answered {took:.3f} s, "  # noqa: T201
          f"told {told_at - asked_at:.3f} s")  # fmt: skip
    assert (status, body["state"]) == (200, "cancelled")
    assert took < SOON
    assert (kind, data["error"]) == ("cancelled", CANCELLED)
    assert told_at - asked_at < SOON
    assert [event for _, event, _ in reader.events].count("cancelled") == 1
    assert rows(stack.database_url, "select estimated, cost > 0 from costs") == [(True, True)]
    assert rows(stack.database_url, "select count(*) from reservations where settled_at is null") == [(0,)]
    again = await here.post("/api/v1/chat", json={"message": "hello", "sender": "reader"})
    assert "hello" in again.json()["reply"]
    assert LONG[:20] not in str(models.requests[-1]["body"]["messages"])  # what was cancelled is as if never said


def sleepers(mark: str) -> int:
    """How many processes have the mark in their command line, sandboxes around them included."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found += mark.encode() in (process / "cmdline").read_bytes()
    return found


async def test_a_cancel_during_a_command_ends_it_and_tells_that_it_is_in_doubt(
    stack: Stack, doors: tuple[httpx2.AsyncClient, httpx2.AsyncClient], mark: str
) -> None:
    """Awaiting callers, at whatever gateway, are answered once the end is committed and not before."""
    here, there = doors
    await asyncio.to_thread(stack.workers)
    body = {"message": "[[script:sleep]]"}
    key = {"Idempotency-Key": "one"}
    found: list[str] = []

    async def ask(http: httpx2.AsyncClient) -> dict[str, Any]:
        reply = (await http.post("/api/v1/chat", json=body, headers=key)).json()
        found.append((await asyncio.to_thread(state_of, stack, reply["run_id"]))[0])
        return dict(reply)

    callers = [asyncio.create_task(ask(here)), asyncio.create_task(ask(there))]
    await asyncio.to_thread(wait_until, (stack.workspace / "asleep").exists, "it sleeps")
    assert sleepers(mark) >= 1
    run = await running(stack)
    status, ended, took = await cancel(here, run)
    replies = await asyncio.gather(*callers)
    print(f"cancel during exec: stored {state_of(stack, run)[1]:.3f} s, answered {took:.3f} s")  # noqa: T201

    assert (status, ended["state"]) == (200, "cancelled")
    assert took < SOON
    assert found == ["cancelled", "cancelled"]
    assert [reply["error"] for reply in replies] == [CANCELLED] * 2
    assert sleepers(mark) == 0
    (notice,) = ended["outcome"]["notices"]
    assert "'exec'" in notice
    assert "may or may not have happened" in notice
    assert rows(stack.database_url, "select tool, state from effects") == [("exec", "in_doubt")]
    told = rows(stack.database_url, "select count(*) from events where type = 'effect_in_doubt'")
    assert told == [(1,)]
    again = await here.post("/api/v1/chat", json={"message": "hello"})
    assert "hello" in again.json()["reply"]


async def test_a_cancel_while_the_only_worker_stands_still_is_forced(
    stack: Stack, doors: tuple[httpx2.AsyncClient, httpx2.AsyncClient]
) -> None:
    """The scheduler ends the run over the worker's head; what the worker says later counts for nothing."""
    here, there = doors
    (worker,) = await asyncio.to_thread(stack.workers)
    scheduler = stack.start("scheduler")
    await asyncio.to_thread(wait_until, lambda: "leading" in text_of(scheduler), "the scheduler leads")
    waiting = asyncio.create_task(here.post("/api/v1/chat", json={"message": "[[script:hang]]"}))
    run = await running(stack)
    worker.popen.send_signal(signal.SIGSTOP)
    status, body, took = await cancel(there, run)
    reply = (await waiting).json()
    print(f"cancel of a stopped worker's run: stored {state_of(stack, run)[1]:.3f} s, answered {took:.3f} s")  # noqa: T201
    worker.popen.send_signal(signal.SIGCONT)
    assert (status, body["state"]) == (200, "cancelled")
    assert took < FORCED + 1
    assert state_of(stack, run)[1] < FORCED
    assert reply["error"] == CANCELLED
    again = await here.post("/api/v1/chat", json={"message": "hello"})
    assert "hello" in again.json()["reply"]
    assert state_of(stack, run)[0] == "cancelled"


async def test_a_cancel_outlives_the_worker_that_was_told_of_it(
    stack: Stack, models: ScriptedModelServer, doors: tuple[httpx2.AsyncClient, httpx2.AsyncClient]
) -> None:
    """Asked, then killed: the heir ends the run and asks no model."""
    here, there = doors
    (worker,) = await asyncio.to_thread(stack.workers)
    waiting = asyncio.create_task(here.post("/api/v1/chat", json={"message": "[[script:hang]]"}))
    run = await running(stack)
    await asyncio.to_thread(wait_until, lambda: models.calls.total() == 1, "the model was asked")
    worker.popen.send_signal(signal.SIGSTOP)
    cancelling = asyncio.create_task(cancel(there, run))
    await running(stack, "cancel_asked_at is not null")
    await asyncio.to_thread(worker.kill)
    await asyncio.to_thread(stack.workers)
    status, body, _ = await cancelling
    assert (status, body["state"]) == (200, "cancelled")
    assert (await waiting).json()["error"] == CANCELLED
    assert models.calls.total() == 1
    ((claims, ends),) = rows(
        stack.database_url,
        "select count(*) filter (where type = 'run_claimed'), count(*) filter (where type = 'run_cancelled')"
        " from events",
    )
    assert ends == 1
    assert claims <= 2


async def test_a_run_that_nobody_has_begun_is_ended_without_any_worker(
    stack: Stack, doors: tuple[httpx2.AsyncClient, httpx2.AsyncClient]
) -> None:
    """All workers may be down; the gateway that is asked says so at once, the other within its second."""
    here, there = doors
    waiting = asyncio.create_task(here.post("/api/v1/chat", json={"message": "hello"}))
    run = await running(stack, "state = 'accepted'")
    status, body, took = await cancel(there, run)
    assert (status, body["state"]) == (200, "cancelled")
    assert took < SOON
    assert (await waiting).json()["error"] == CANCELLED
    status, body, _ = await cancel(there, run)  # once more
    assert (status, body["state"]) == (200, "cancelled")
