"""A process says that it lives: one hash with a TTL, for operators."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import structlog
from redis.exceptions import RedisError

from shared.adapters.redis.connection import Redis

log = structlog.get_logger(__name__)

TELL_EVERY = timedelta(seconds=2)
LIVES = timedelta(seconds=10)


async def keep_monitor(client: Redis, key: str, fields: Callable[[], Mapping[str, str]]) -> None:
    """Write the hash every two seconds until cancelled, then take it away."""
    try:
        while True:
            try:
                pipeline: Any = client.pipeline(transaction=True)
                pipeline.hset(key, mapping=fields())
                pipeline.expire(key, LIVES)
                await pipeline.execute()
            except (RedisError, OSError) as fault:
                log.debug("monitor_not_written", error=type(fault).__name__)
            await asyncio.sleep(TELL_EVERY.total_seconds())
    finally:
        try:
            await client.delete(key)
        except (RedisError, OSError):
            log.debug("monitor_not_removed")
