"""Background jobs over a real Redis: asked for once, done once, and nothing but what a queue allows."""

import asyncio
import contextlib
import os
import pickle
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest
import redis.asyncio
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer

from shared.adapters.redis.job_worker import JobWorker
from shared.adapters.redis.queues import RqQueues, blocking_client, open_queues
from shared.errors import BadInput, TryLater

WRITE_DOWN = "job_for_tests.write_down"
FAIL = "job_for_tests.fail"
QUEUE = "lucyd-test"


@pytest.fixture
async def queues(redis_url: str) -> AsyncIterator[RqQueues]:
    async with open_queues(redis_url) as opened:
        yield opened


@contextlib.asynccontextmanager
async def working(url: str, name: str = "worker-1") -> AsyncIterator[JobWorker]:
    worker = JobWorker(url, name=name, jobs={QUEUE: {WRITE_DOWN, FAIL}})
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        await worker.stop(timedelta(seconds=5))
        await asyncio.wait_for(task, 5)


async def until(condition: Callable[[], bool | Awaitable[bool]], seconds: float = 10) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        found = condition()
        if found if isinstance(found, bool) else await found:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen in time")


def status(url: str, job_id: str) -> str:
    with blocking_client(url) as client:
        return Job.fetch(job_id, connection=client, serializer=JSONSerializer).get_status().value


def lines(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines() if file.exists() else []


async def test_the_same_job_id_is_done_once(queues: RqQueues, redis_url: str, tmp_path: Path) -> None:
    """Two leaders in a row ask for the same period's work; also when the first one's is over already."""
    wish = {"file": str(tmp_path / "out")}
    assert await queues.enqueue(QUEUE, WRITE_DOWN, wish, job_id="index_1")
    assert not await queues.enqueue(QUEUE, WRITE_DOWN, wish, job_id="index_1")
    async with working(redis_url):
        await until(lambda: len(lines(tmp_path / "out")) == 1)
        await until(lambda: status(redis_url, "index_1") == "finished")
        assert not await queues.enqueue(QUEUE, WRITE_DOWN, wish, job_id="index_1")
        assert await queues.enqueue(QUEUE, WRITE_DOWN, wish, job_id="index_2")
        await until(lambda: len(lines(tmp_path / "out")) == 2)


async def test_a_failing_job_is_recorded_and_the_next_one_done(
    queues: RqQueues, redis_url: str, tmp_path: Path
) -> None:
    """One bad document must not stop the queue."""
    await queues.enqueue(QUEUE, FAIL, {}, job_id="bad")
    await queues.enqueue(QUEUE, WRITE_DOWN, {"file": str(tmp_path / "out")}, job_id="good")
    async with working(redis_url):
        await until(lambda: len(lines(tmp_path / "out")) == 1)
        await until(lambda: status(redis_url, "bad") == "failed")


async def test_only_the_jobs_of_a_queue_are_called(queues: RqQueues, redis_url: str, tmp_path: Path) -> None:
    """Whoever reaches Redis must not be able to call whatever Python can import."""
    await queues.enqueue(QUEUE, "os.system", {}, job_id="evil")
    await queues.enqueue(QUEUE, WRITE_DOWN, {"file": str(tmp_path / "out")}, job_id="good")
    async with working(redis_url):
        await until(lambda: len(lines(tmp_path / "out")) == 1)
        assert status(redis_url, "evil") == "failed"


class Bomb:
    """Leaves a directory behind when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.path,)


async def test_nothing_is_ever_unpickled(queues: RqQueues, redis_url: str, tmp_path: Path) -> None:
    """Pickle from Redis would be code from Redis."""
    with blocking_client(redis_url) as client:
        job = Queue(QUEUE, connection=client, serializer=JSONSerializer).enqueue_call(
            WRITE_DOWN, args=("{}",), job_id="pickled"
        )
        client.hset(job.key, "data", pickle.dumps(Bomb(str(tmp_path / "boom"))))
    await queues.enqueue(QUEUE, WRITE_DOWN, {"file": str(tmp_path / "out")}, job_id="good")
    async with working(redis_url):
        await until(lambda: len(lines(tmp_path / "out")) == 1)
    assert not (tmp_path / "boom").exists()


async def test_stopping_waits_for_the_job_in_hand(queues: RqQueues, redis_url: str, tmp_path: Path) -> None:
    """A deploy does not cut work short that is nearly done."""
    await queues.enqueue(QUEUE, WRITE_DOWN, {"file": str(tmp_path / "out"), "seconds": 1}, job_id="slow")
    async with working(redis_url) as worker:
        await until(lambda: worker.vitals["job"] == "slow")
    assert lines(tmp_path / "out") == ["done"]


async def test_a_job_that_outlasts_the_goodbye_is_done_anew_by_the_next(
    queues: RqQueues, redis_url: str, tmp_path: Path
) -> None:
    """A deploy must not cost a day's maintenance; until the next one nobody would ask for it."""
    file = tmp_path / "out"
    worker = JobWorker(redis_url, name="worker-1", jobs={QUEUE: {WRITE_DOWN}})
    task = asyncio.create_task(worker.run())
    await queues.enqueue(QUEUE, WRITE_DOWN, {"file": str(file), "seconds": 2}, job_id="long")
    await until(lambda: status(redis_url, "long") == "started")
    await worker.stop(timedelta(seconds=0.1))
    assert status(redis_url, "long") == "queued"
    async with working(redis_url, "worker-2"):
        await until(lambda: status(redis_url, "long") == "finished")
        await until(lambda: len(lines(file)) == 2)  # here the first one goes on; its process would have ended
    await asyncio.wait_for(task, 5)


async def test_an_idle_worker_stops_quickly_and_leaves_nothing_behind(
    redis_url: str, redis_client: redis.asyncio.Redis
) -> None:
    """Nobody waits for a worker that has nothing in hand."""
    async with working(redis_url):
        await until(lambda: _is_registered(redis_client))
        began = time.monotonic()
    assert time.monotonic() - began < 3
    assert not await _is_registered(redis_client)


async def _is_registered(client: redis.asyncio.Redis) -> bool:
    return bool(await client.smembers("rq:workers"))


async def test_a_worker_outlives_a_redis_that_drops_its_connections(
    queues: RqQueues, redis_url: str, redis_client: redis.asyncio.Redis, tmp_path: Path
) -> None:
    """Redis may be restarted at any time, and emptied by it."""
    async with working(redis_url):
        await until(lambda: _is_registered(redis_client))
        await redis_client.flushall()
        await redis_client.client_kill_filter(_type="normal", skipme=True)
        await queues.enqueue(QUEUE, WRITE_DOWN, {"file": str(tmp_path / "out")}, job_id="after")
        await until(lambda: len(lines(tmp_path / "out")) == 1)


async def test_a_redis_that_is_not_there_is_said_within_bounds() -> None:
    """Whoever asks for a job hears soon that it has to wait."""
    async with open_queues("redis://127.0.0.1:1/0") as queues:
        with pytest.raises(TryLater):
            await queues.enqueue(QUEUE, WRITE_DOWN, {}, job_id="x")


async def test_a_worker_without_redis_goes_on_trying_and_can_be_stopped() -> None:
    """It never ends by itself, and never holds up the end of its process."""
    async with working("redis://127.0.0.1:1/0"):
        await asyncio.sleep(0.5)
        began = time.monotonic()
    assert time.monotonic() - began < 3


async def test_an_id_with_other_signs_is_refused(queues: RqQueues) -> None:
    """RQ would refuse it far from where it was made."""
    with pytest.raises(BadInput):
        await queues.enqueue(QUEUE, WRITE_DOWN, {}, job_id="a:b")
