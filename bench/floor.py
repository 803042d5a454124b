"""The floor: what the storage of a run costs when nothing is done but that, by a bare loop on the same servers.

For each run three commits of one statement and one row, and six round trips to Redis, in the order in which Lucyd has
them; 200 at a time, as many as sessions at the saturated load, over as many connections as its processes have.
"""

import asyncio
import time
from typing import Any
from uuid import uuid4

import orjson
import psycopg
import redis.asyncio
from psycopg_pool import AsyncConnectionPool

from bench.wire import Mark, message_text, reply_text

CONNECTIONS = 16
_STREAM = "bench:floor:inbound"
_GROUP = "workers"
_EVENTS_LIVE = 3600

_TABLE = """
create table if not exists bench_floor (
  id uuid primary key, conversation text not null, state text not null, message jsonb not null, outcome jsonb,
  owner uuid, epoch bigint not null default 0, accepted_at timestamptz not null default now(),
  claimed_at timestamptz, finished_at timestamptz
) with (fillfactor = 70)
"""
_ACCEPT = "insert into bench_floor (id, conversation, state, message) values (%s, %s, 'accepted', %s::jsonb)"
_CLAIM = """
update bench_floor set state = 'running', owner = %s, epoch = epoch + 1, claimed_at = now() where id = %s
  returning epoch, message
"""
_FINISH = "update bench_floor set state = 'done', outcome = %s::jsonb, owner = null, finished_at = now() where id = %s"

_TOKEN = "0" * 12
_MESSAGE = orjson.dumps({"text": message_text(Mark(_TOKEN, 0, 0))}).decode()
_OUTCOME = orjson.dumps(
    {"reply": reply_text(_TOKEN), "tokens": {"input": 2600, "output": 90}, "cost": "0.00915", "turns": 1, "notices": []}
).decode()


Pool = AsyncConnectionPool[psycopg.AsyncConnection[tuple[Any, ...]]]


async def measure_floor(database_url: str, redis_url: str, *, runs: int, at_once: int) -> float:
    """Runs per second of the bare loop, after a warm-up of a tenth."""
    async with (
        AsyncConnectionPool(
            database_url, min_size=CONNECTIONS, max_size=CONNECTIONS, kwargs={"autocommit": True}, open=False
        ) as pool,
        redis.asyncio.Redis.from_url(redis_url, max_connections=at_once + CONNECTIONS) as client,
    ):
        await pool.wait()
        async with pool.connection() as connection:
            await connection.execute(_TABLE)
        await client.delete(_STREAM)
        await client.xgroup_create(_STREAM, _GROUP, id="0", mkstream=True)
        await _loop(pool, client, runs // 10, at_once)
        began = time.monotonic()
        await _loop(pool, client, runs, at_once)
        seconds = time.monotonic() - began
        await client.delete(_STREAM)
        async with pool.connection() as connection:
            await connection.execute("drop table bench_floor")
        return runs / seconds


async def _loop(
    pool: Pool,
    client: redis.asyncio.Redis,
    runs: int,
    at_once: int,
) -> None:
    left = iter(range(runs))

    async def session() -> None:
        for _ in left:
            await _one_run(pool, client)

    await asyncio.gather(*(session() for _ in range(at_once)))


async def _one_run(pool: Pool, client: redis.asyncio.Redis) -> None:
    run, owner = uuid4(), uuid4()
    events, result = f"bench:floor:{run}:events", f"bench:floor:{run}:result"
    await _commit(pool, _ACCEPT, (run, "http:default:floor", _MESSAGE))
    await client.xadd(_STREAM, {"run": str(run), "conversation": "http:default:floor"})  # 1: wake
    heard: Any = await client.xreadgroup(_GROUP, "floor", {_STREAM: ">"}, count=1)  # 2: hear
    ((_, ((entry, _),)),) = heard
    await _commit(pool, _CLAIM, (owner, run))
    async with client.pipeline(transaction=False) as acknowledged:  # 3: the wake-up is done with
        acknowledged.xack(_STREAM, _GROUP, entry)
        acknowledged.xdel(_STREAM, entry)
        await acknowledged.execute()
    async with client.pipeline(transaction=False) as told:  # 4: what the model says
        told.xadd(events, {"type": "delta", "data": _OUTCOME})
        told.expire(events, _EVENTS_LIVE)
        await told.execute()
    await _commit(pool, _FINISH, (_OUTCOME, run))
    async with client.pipeline(transaction=False) as ended:  # 5: the end, the future, the announcement
        ended.xadd(events, {"type": "done", "data": _OUTCOME})
        ended.set(result, _OUTCOME, ex=_EVENTS_LIVE)
        ended.publish("bench:floor:finished", str(run))
        await ended.execute()
    await client.get(result)  # 6: who waits for it reads it


async def _commit(pool: Pool, statement: str, values: tuple[object, ...]) -> None:
    async with pool.connection() as connection:
        await connection.execute(statement, values)
