"""Queues that are opened late: nothing before the first job, one sentence when Redis is away."""

import subprocess
import sys

import pytest

from shared.adapters.redis.late_desk import open_late_desk
from shared.errors import BadInput, TryLater
from shared.messages import routes
from tests.stack import PROJECT, free_port


async def test_a_job_is_asked_for_once_and_found_again(redis_url: str) -> None:
    """As with queues that were open from the start; an unknown id is no fault."""
    async with open_late_desk(redis_url) as desk:
        asked = [await desk.enqueue(routes.INDEX_QUEUE, routes.INDEX_JOB, {"full": True}, job_id="a") for _ in range(2)]
        job = await desk.job("a")
        assert asked == [True, False]
        assert job is not None
        assert (job.id, job.queue, job.state, job.result) == ("a", routes.INDEX_QUEUE, "queued", None)
        assert await desk.job("b") is None
        with pytest.raises(BadInput):
            await desk.enqueue(routes.INDEX_QUEUE, routes.INDEX_JOB, {}, job_id="a b")


async def test_a_redis_that_is_away_is_told_as_such() -> None:
    """The caller reads 503 and comes back."""
    async with open_late_desk(f"redis://127.0.0.1:{free_port()}/0") as desk:
        with pytest.raises(TryLater):
            await desk.enqueue(routes.INDEX_QUEUE, routes.INDEX_JOB, {}, job_id="a")
        with pytest.raises(TryLater):
            await desk.job("a")


def test_nothing_of_it_is_imported_before() -> None:
    """A gateway starts without the job queue's library, and most never need it."""
    words = [sys.executable, "-c", "import shared.adapters.redis.late_desk, sys; print('rq' in sys.modules)"]
    told = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
