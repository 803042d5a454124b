"""Real workers: a flood and the message of somebody else, lines that move to a peer, a worker without memory."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from redis.asyncio import Redis

from shared.actions.accept_message import accept_message
from shared.adapters.postgres.inbox import PostgresInbox
from shared.adapters.postgres.pool import Database
from shared.adapters.redis.wake_ups import RedisWakeUps
from tests.builders import address, new_run
from tests.bus_worlds import HOUR
from tests.scripted_model_server import Hang, Say, ScriptedModelServer
from tests.stack import Stack, model_toml, open_stack, text_of, wait_until


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """Answers at once, after half a second, or after eight."""
    scripts: Any = {"quick": [Say("hi")], "half": [Hang(0.5), Say("hi")], "long": [Hang(8), Say("hi")]}
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """Nothing runs yet."""
    with open_stack(tmp_path, database_url, redis_url, _toml(models)) as opened:
        yield opened


def _toml(models: ScriptedModelServer, extra: str = "") -> str:
    return model_toml("anthropic", models.base_url("anthropic"), extra=f"agent_timeout_seconds = 20\n{extra}")


class Door:
    """Accepts messages of any principal, as every door does."""

    def __init__(self, database: Database, client: Redis) -> None:
        self._inbox = PostgresInbox(database)
        self._wake_ups = RedisWakeUps(client, consumer="test", stream_ttl=HOUR)

    async def send(self, script: str, count: int, principal: str) -> list[UUID]:
        """So many messages, each in a conversation of its own."""
        runs = []
        for number in range(count):
            where = address(f"http:{principal}:{script}{number}", principal=principal)
            new = new_run(f"[[script:{script} {number}]]", address=where)
            runs.append((await accept_message(new, inbox=self._inbox, wake_ups=self._wake_ups)).run)
        return runs


@pytest.fixture
async def door(database: Database, redis_client: Redis) -> Door:
    return Door(database, redis_client)


def _rows(stack: Stack, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(stack.database_url) as connection:
        return connection.execute(query, parameters).fetchall()


async def _until_ended(stack: Stack, runs: list[UUID], *, within: float = 20) -> None:
    def have_ended() -> bool:
        query = "select count(*) from runs where id = any(%s) and state = 'done'"
        return _rows(stack, query, runs) == [(len(runs),)]

    await asyncio.to_thread(wait_until, have_ended, f"{len(runs)} runs have ended", within=within)


async def test_a_message_is_begun_at_once_beside_anothers_flood(
    stack: Stack, models: ScriptedModelServer, door: Door
) -> None:
    """Long runs of one principal never hold all slots, and its line holds up nobody else."""
    stack.config.write_text(_toml(models, "[worker]\nslots = 4\n"), "utf-8")
    await asyncio.to_thread(stack.workers, 1)
    await door.send("long", 20, "key:flood")
    await asyncio.sleep(0.5)
    quiet = await door.send("quick", 2, "key:quiet")
    await _until_ended(stack, quiet, within=6)  # before the first of the flood has ended

    flood = "select state, count(*) from runs where principal = 'key:flood' group by state order by state"
    assert _rows(stack, flood) == [("accepted", 18), ("running", 2)]


async def test_what_stands_in_one_workers_line_moves_to_a_peer_that_has_room(
    stack: Stack, models: ScriptedModelServer, door: Door
) -> None:
    """A worker that is started to help finds work within about a second; nothing is done twice."""
    stack.config.write_text(_toml(models, "[worker]\nslots = 2\n[fairness]\nwindow = 1.0\n"), "utf-8")
    await asyncio.to_thread(stack.workers, 1)
    runs = await door.send("half", 60, "key:a")
    await asyncio.to_thread(stack.workers, 1)
    await _until_ended(stack, runs, within=40)

    shares = _rows(stack, "select count(*) from reservations group by worker")
    assert len(shares) == 2
    assert sum(share for (share,) in shares) == 60
    assert _rows(stack, "select max(attempts), max(suspected) from runs") == [(1, 0)]


async def test_a_worker_above_its_memory_limit_leaves_the_work_to_others_and_is_started_anew(
    stack: Stack, models: ScriptedModelServer, door: Door
) -> None:
    """It says so, loses nothing, counts no attempt, and ends with the code by which it is started again."""
    roomy = stack.config
    small = roomy.with_name("small.toml")
    small.write_text(_toml(models, "[worker]\nmemory_mb = 1\n"), "utf-8")
    stack.config = small
    (cramped,) = await asyncio.to_thread(stack.workers, 1)
    early = await door.send("half", 8, "key:a")
    await asyncio.to_thread(wait_until, lambda: "memory_limit_reached" in text_of(cramped), "it takes nothing new")
    stack.config = roomy
    await asyncio.to_thread(stack.workers, 1)
    late = await door.send("quick", 8, "key:a")
    await _until_ended(stack, [*early, *late])

    assert await asyncio.to_thread(cramped.popen.wait, 15) == 75
    assert "worker_starts_anew" in text_of(cramped)
    assert _rows(stack, "select max(attempts), max(suspected) from runs") == [(1, 0)]
    states = _rows(stack, "select state from workers where service = 'agent_worker' order by started_at")
    assert states == [("stopped",), ("alive",)]
