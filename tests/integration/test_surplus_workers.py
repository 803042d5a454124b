"""Real workers on a processor that is full: one stands back, and is there when it is needed."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
import redis
import redis.asyncio

from shared.actions.accept_message import accept_message
from shared.adapters.postgres.inbox import PostgresInbox
from shared.adapters.postgres.pool import Database
from shared.adapters.redis.wake_ups import RedisWakeUps
from shared.messages import routes
from tests.builders import address, new_run
from tests.bus_worlds import HOUR
from tests.scripted_model_server import Hang, Say, ScriptedModelServer
from tests.stack import Process, Stack, model_toml, open_stack, wait_until


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """Answers at once, or after five seconds."""
    scripts: Any = {"quick": [Say("hi")], "long": [Hang(5), Say("hi")]}
    with ScriptedModelServer(scripts).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """Nothing runs yet."""
    toml = model_toml("anthropic", models.base_url("anthropic"), extra="agent_timeout_seconds = 20\n")
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


class Workers:
    """Started one after the other, each on one full processor; and what they tell of themselves."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def start(self) -> Process:
        (process,) = self._stack.workers(module="tests.integration.busy_worker")
        return process

    def told(self, process: Process) -> dict[str, str]:
        """The monitor hash of this worker."""
        with redis.Redis.from_url(self._stack.redis_url, decode_responses=True) as client:
            fields: Any = client.hgetall(routes.monitor_process("agent_worker", self._id(process)))
        return dict(fields)

    def wait_until_told(self, process: Process, taking: str) -> None:
        """Figures are told every two seconds, looked at each second and told again."""
        wait_until(lambda: self.told(process).get("taking") == taking, f"it tells {taking!r}", within=15, every=0.1)

    def who_asked(self, runs: list[UUID]) -> set[int]:
        """The process ids of the workers that asked the model for these."""
        query = "select distinct pid from reservations join workers w on w.id = worker where run = any(%s)"
        with psycopg.connect(self._stack.database_url) as connection:
            return {pid for (pid,) in connection.execute(query, (runs,))}

    def wait_until_done(self, runs: list[UUID]) -> None:
        query = "select count(*) from runs where id = any(%s) and state = 'done' and attempts = 1"
        with psycopg.connect(self._stack.database_url, autocommit=True) as connection:
            wait_until(lambda: connection.execute(query, (runs,)).fetchall() == [(len(runs),)], "all are answered")

    def _id(self, process: Process) -> UUID:
        with psycopg.connect(self._stack.database_url) as connection:
            ((found,),) = connection.execute("select id from workers where pid = %s", (process.popen.pid,)).fetchall()
        return UUID(str(found))


@pytest.fixture
def workers(stack: Stack) -> Workers:
    return Workers(stack)


class Door:
    """Accepts messages, each in a conversation of its own, and wakes for them."""

    def __init__(self, database: Database, client: redis.asyncio.Redis) -> None:
        self._inbox = PostgresInbox(database)
        self._wake_ups = RedisWakeUps(client, consumer="test", stream_ttl=HOUR)

    async def send(self, script: str, count: int, at: str) -> list[UUID]:
        runs = []
        for number in range(count):
            new = new_run(f"[[script:{script} {at}{number}]]", address=address(f"http:key:{at}{number}"))
            runs.append((await accept_message(new, inbox=self._inbox, wake_ups=self._wake_ups)).run)
        return runs


@pytest.fixture
def door(database: Database, redis_client: redis.asyncio.Redis) -> Door:
    return Door(database, redis_client)


async def test_a_surplus_worker_stands_back_and_takes_the_place_of_an_elder_that_was_killed(
    workers: Workers, door: Door
) -> None:
    """What is sent meanwhile is answered all the same, and by the first try."""
    elder = await asyncio.to_thread(workers.start)
    surplus = await asyncio.to_thread(workers.start)
    await asyncio.to_thread(workers.wait_until_told, surplus, "no (processors are full)")
    told = workers.told(elder)
    assert (told["taking"], told["slots"], told["in_line_ms"]) == ("yes", "128", "0")
    assert told["machine"] == workers.told(surplus)["machine"]
    await asyncio.to_thread(workers.wait_until_done, await door.send("quick", 10, "before"))

    elder.kill()
    runs = await door.send("quick", 10, "after")
    await asyncio.to_thread(workers.wait_until_done, runs)
    assert workers.who_asked(runs) == {surplus.popen.pid}
    await asyncio.to_thread(workers.wait_until_told, surplus, "yes")


async def test_a_worker_that_drains_says_that_it_takes_nothing(workers: Workers, door: Door) -> None:
    """In a rolling restart it is the elder of all that follow, and must not be counted on."""
    elder = await asyncio.to_thread(workers.start)
    runs = await door.send("long", 1, "long")
    await asyncio.to_thread(wait_until, lambda: workers.who_asked(runs), "it is in hand")
    elder.popen.terminate()
    await asyncio.to_thread(workers.wait_until_told, elder, "no (draining)")
    assert await asyncio.to_thread(elder.stop) == 0
