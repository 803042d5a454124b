"""A process says that it lives: one hash with a TTL, for operators."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta

import structlog
from redis.exceptions import RedisError

from shared.adapters.redis.connection import Redis, send_all
from shared.errors import TryLater

log = structlog.get_logger(__name__)

TELL_EVERY = timedelta(seconds=2)
LIVES = 10
"""Seconds."""

WITHIN = timedelta(seconds=5)


async def keep_monitor(client: Redis, key: str, fields: Callable[[], Mapping[str, str]]) -> None:
    """Write the hash every two seconds until cancelled, then take it away."""
    try:
        while True:
            try:
                shown = [text for pair in fields().items() for text in pair]
                await send_all(client, [("MULTI",), ("HSET", key, *shown), ("EXPIRE", key, LIVES), ("EXEC",)], WITHIN)
            except TryLater as fault:
                log.debug("monitor_not_written", reason=str(fault))
            await asyncio.sleep(TELL_EVERY.total_seconds())
    finally:
        try:
            await client.delete(key)
        except (RedisError, OSError):
            log.debug("monitor_not_removed")
