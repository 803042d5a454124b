"""The faults, each done to living processes."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import psycopg
import redis

from shared.messages import routes
from tests.chaos.plan import Planned
from tests.chaos.town import Town, wait_for

SHORT_PAUSE = (1.0, 3.0)
LONG_PAUSE = (8.0, 11.0)
"""Seconds; a worker is fenced after 6."""

Fault = Callable[[Town, Random], Coroutine[Any, Any, bool]]


@dataclass(frozen=True, slots=True)
class Hit:
    """A fault that came: how many runs were in flight, and whether anything was there to be hit."""

    fault: str
    in_flight: int
    came: bool


async def trouble(town: Town, plan: Sequence[Planned], in_flight: Callable[[], int], random: Random) -> list[Hit]:
    """Do what is planned, when it is due; pauses go on while the next ones come."""
    began = time.monotonic()
    under_way: list[tuple[str, int, asyncio.Task[bool]]] = []
    for planned in plan:
        await asyncio.sleep(max(0.0, began + planned.at - time.monotonic()))
        under_way.append((planned.fault, in_flight(), asyncio.create_task(FAULTS[planned.fault](town, random))))
    return [Hit(fault, count, await task) for fault, count, task in under_way]


def kill(service: str) -> Fault:
    """SIGKILL one process of the service."""

    async def hit(town: Town, random: Random) -> bool:
        process = town.pick(service, random)
        if process is not None:
            process.popen.kill()
        return process is not None

    return hit


def pause(seconds: tuple[float, float]) -> Fault:
    """SIGSTOP a worker, SIGCONT it some time later."""

    async def hit(town: Town, random: Random) -> bool:
        process = town.pick("agent_worker", random)
        if process is None:
            return False
        town.asleep.add(process.popen.pid)
        process.popen.send_signal(signal.SIGSTOP)
        await asyncio.sleep(random.uniform(*seconds))
        if process.popen.poll() is None:
            process.popen.send_signal(signal.SIGCONT)
        town.asleep.discard(process.popen.pid)
        return True

    return hit


async def term_worker(town: Town, random: Random) -> bool:
    """SIGTERM: it drains and is replaced, as in a deployment."""
    process = town.pick("agent_worker", random)
    if process is not None:
        town.tell_to_stop(process)
    return process is not None


async def flush(town: Town, _: Random) -> bool:
    """FLUSHALL."""
    began = time.time()
    try:
        await asyncio.to_thread(redis.Redis.from_url(town.stack.redis_url, socket_timeout=5).flushall)
    except redis.RedisError:
        return False
    finally:
        town.wipes.append((began, time.time()))
    return True


async def kill_redis(town: Town, _: Random) -> bool:
    """SIGKILL Redis; it starts again, empty."""
    pid = town.pid_of_redis()
    if pid is None:
        return False
    began = time.time()
    os.kill(pid, signal.SIGKILL)
    await asyncio.sleep(0.3)
    await wait_for(lambda: _answers(town), 30)
    town.wipes.append((began, time.time()))
    return True


async def kill_postgres(town: Town, _: Random) -> bool:
    """SIGKILL the postmaster; it starts again and recovers."""
    pid = town.pid_of_postgres()
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
    return pid is not None


async def wake_twice(town: Town, _: Random) -> bool:
    """Every open run is announced twice more, as a broker does that lost an acknowledgement."""
    try:
        async with await psycopg.AsyncConnection.connect(town.stack.database_url, connect_timeout=3) as database:
            found = await database.execute(
                "select conversation, id::text from runs where state in ('accepted', 'running') order by accepted_at"
            )
            rows = await found.fetchall()
        with redis.Redis.from_url(town.stack.redis_url, socket_timeout=5) as client:
            for conversation, run in [*rows, *rows]:
                client.xadd(routes.INBOUND, {"conversation": conversation, "run": run})
    except (psycopg.OperationalError, redis.RedisError):
        return False
    return bool(rows)


def _answers(town: Town) -> bool:
    try:
        return bool(redis.Redis.from_url(town.stack.redis_url, socket_timeout=2).ping())
    except redis.RedisError:
        return False


FAULTS: Mapping[str, Fault] = {
    "kill worker": kill("agent_worker"),
    "kill gateway": kill("gateway"),
    "kill scheduler": kill("scheduler"),
    "pause worker < fence": pause(SHORT_PAUSE),
    "pause worker > fence": pause(LONG_PAUSE),
    "term worker": term_worker,
    "flushall": flush,
    "kill redis": kill_redis,
    "kill postgres": kill_postgres,
    "wake twice": wake_twice,
}
