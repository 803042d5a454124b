"""What workers read of each other: the same of the fake and of Redis, and what a Redis adds."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import redis.asyncio

from shared.adapters.inmemory.colleagues import InMemoryColleagues
from shared.adapters.redis.colleagues import RedisColleagues
from shared.adapters.redis.process_monitor import keep_monitor
from shared.errors import TryLater
from shared.ids import new_id
from shared.messages import routes
from shared.messages.worker_figures import WorkerFigures
from shared.ports.colleagues import Colleagues

FIGURES = WorkerFigures("6f1c/0-1", "yes", 3, 128, 7, timedelta(milliseconds=250))


class InMemoryWorld:
    """Over a dictionary."""

    def __init__(self) -> None:
        self._fake = InMemoryColleagues()
        self.colleagues: Colleagues = self._fake

    async def tell(self, worker: UUID, fields: Mapping[str, str]) -> None:
        self._fake.tell(worker, fields)

    async def forget(self, worker: UUID) -> None:
        self._fake.forget(worker)


class RedisWorld:
    """Over Redis."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._client: Any = client
        self.colleagues: Colleagues = RedisColleagues(client)

    async def tell(self, worker: UUID, fields: Mapping[str, str]) -> None:
        await self._client.hset(routes.monitor_process("agent_worker", worker), mapping=dict(fields))

    async def forget(self, worker: UUID) -> None:
        await self._client.delete(routes.monitor_process("agent_worker", worker))


@pytest.fixture(params=["inmemory", "redis"])
def world(request: pytest.FixtureRequest) -> InMemoryWorld | RedisWorld:
    return InMemoryWorld() if request.param == "inmemory" else RedisWorld(request.getfixturevalue("redis_client"))


async def test_those_asked_for_are_told_as_they_told(world: InMemoryWorld | RedisWorld) -> None:
    """Each by its id; what else it tells is for operators."""
    one, two, other = new_id(), new_id(), new_id()
    full = WorkerFigures("6f1c/0-1", "no (memory)", 128, 128, 9000, timedelta(minutes=2))
    await world.tell(one, {"service": "agent_worker", **FIGURES.told(), "rss_bytes": "1"})
    await world.tell(two, full.told())
    await world.tell(other, FIGURES.told())

    assert await world.colleagues.figures([one, two]) == {one: FIGURES, two: full}
    assert await world.colleagues.figures([]) == {}


async def test_who_is_gone_or_tells_less_is_left_out(world: InMemoryWorld | RedisWorld) -> None:
    """Nobody may be counted on who has not said so."""
    here, gone, older = new_id(), new_id(), new_id()
    await world.tell(here, FIGURES.told())
    await world.tell(gone, FIGURES.told())
    await world.tell(older, {"taking": "yes", "conversations": "3", "in_line": "0"})
    await world.forget(gone)

    assert await world.colleagues.figures([gone, new_id(), older, here]) == {here: FIGURES}


async def test_what_a_process_keeps_in_its_monitor_key_is_read(redis_client: redis.asyncio.Redis) -> None:
    """And is gone with it."""
    worker = new_id()
    key = routes.monitor_process("agent_worker", worker)
    keeping = asyncio.create_task(keep_monitor(redis_client, key, lambda: {"pid": "1", **FIGURES.told()}))
    await _until(lambda: redis_client.exists(key))
    assert await RedisColleagues(redis_client).figures([worker]) == {worker: FIGURES}
    assert 0 < await redis_client.ttl(key) <= 10
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert await RedisColleagues(redis_client).figures([worker]) == {}


async def test_a_key_of_another_kind_is_told_as_away(redis_client: redis.asyncio.Redis) -> None:
    """Whoever asks goes on as if nobody could tell."""
    worker = new_id()
    await redis_client.set(routes.monitor_process("agent_worker", worker), "?")
    with pytest.raises(TryLater):
        await RedisColleagues(redis_client).figures([worker])


async def test_a_redis_that_is_away_is_told_so() -> None:
    """A worker that stands back takes work then."""
    client = redis.asyncio.Redis(host="127.0.0.1", port=1, socket_connect_timeout=0.2)
    with pytest.raises(TryLater):
        await RedisColleagues(client).figures([new_id()])
    await client.aclose()


async def _until(condition: Callable[[], Awaitable[int]]) -> None:
    async with asyncio.timeout(5):
        while not await condition():
            await asyncio.sleep(0.01)
