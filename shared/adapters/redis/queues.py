"""RQ as the road of background jobs: JSON on both sides, never pickle."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import orjson
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import Queue
from rq.exceptions import DuplicateJobError
from rq.serializers import JSONSerializer

from shared.adapters.redis.connection import BOUNDS, NO_ADDRESS, faults_as_try_later
from shared.errors import BadInput, ConfigError

JOB_MAY_TAKE = timedelta(minutes=10)
KEPT = timedelta(hours=25)
"""How long a job's id is remembered, waiting or ended: longer than the longest period, which is a day."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


@contextlib.asynccontextmanager
async def open_queues(url: str) -> AsyncIterator["RqQueues"]:
    """The queues over a connection of their own: RQ speaks through the client that blocks."""
    client = blocking_client(url)
    try:
        yield RqQueues(client)
    finally:
        client.close()


def blocking_client(url: str) -> redis.Redis:
    """A client for threads, as bounded as the other one. It does not decode, for RQ does."""
    try:
        return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 1), **BOUNDS)
    except ValueError as fault:
        raise ConfigError([NO_ADDRESS]) from fault


class RqQueues:
    """``Queues`` of the ports."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    async def enqueue(self, queue: str, job: str, argument: Mapping[str, Any], *, job_id: str) -> bool:
        """See ``Queues.enqueue``."""
        if not _ID.fullmatch(job_id):
            raise BadInput("a job id consists of letters, digits, _ and -")
        with faults_as_try_later():
            return await asyncio.to_thread(self._enqueue, queue, job, orjson.dumps(argument).decode(), job_id)

    def _enqueue(self, queue: str, job: str, argument: str, job_id: str) -> bool:
        road = Queue(queue, connection=self._client, serializer=JSONSerializer)
        self._client.sadd(Queue.redis_queues_keys, road.key)  # so that RQ's own tools show it; unique jobs skip that
        kept = round(KEPT.total_seconds())
        try:
            road.enqueue_call(
                job,
                args=(argument,),
                timeout=round(JOB_MAY_TAKE.total_seconds()),
                result_ttl=kept,
                failure_ttl=kept,
                ttl=kept,
                description=job,
                job_id=job_id,
                unique=True,
            )
        except DuplicateJobError:
            return False
        return True
