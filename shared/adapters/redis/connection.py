"""The Redis client with our own bounds, and what a server must be to be used."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from shared.errors import ConfigError, TryLater

CONNECT_TIMEOUT = timedelta(seconds=2)
COMMAND_TIMEOUT = timedelta(seconds=5)
LONGEST_BLOCK = timedelta(seconds=2)
"""A blocking read ends well before the socket's own timeout, which would look like a dead server."""

Redis = redis.asyncio.Redis


@contextlib.asynccontextmanager
async def open_redis(url: str) -> AsyncIterator[Redis]:
    """A client that fails within seconds instead of retrying for minutes; callers decide what a fault means."""
    try:
        client = redis.asyncio.Redis.from_url(
            url,
            decode_responses=True,
            socket_connect_timeout=CONNECT_TIMEOUT.total_seconds(),
            socket_timeout=COMMAND_TIMEOUT.total_seconds(),
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 1),
            retry_on_error=[redis.exceptions.ConnectionError],
        )
    except ValueError as fault:
        raise ConfigError(["LUCYD_REDIS_URL is not a Redis address (redis://host:port/0 or rediss://...)"]) from fault
    try:
        yield client
    finally:
        await client.aclose()


@contextlib.contextmanager
def faults_as_try_later() -> Iterator[None]:
    """The vendor's passing faults in our words."""
    try:
        yield
    except (RedisError, OSError, TimeoutError) as fault:
        raise TryLater("Redis can't be reached", after=0.5) from fault


async def bounded(command: Awaitable[Any], limit: timedelta) -> Any:
    """The command's answer, or ``TryLater`` after ``limit``."""
    with faults_as_try_later():
        async with asyncio.timeout(limit.total_seconds()):
            return await command


def raise_if_refused(replies: Sequence[Any]) -> None:
    """Raises ``TryLater`` when a pipeline's command was refused, but for what was told before."""
    for reply in replies:
        if isinstance(reply, Exception) and not _already_told(reply):
            raise TryLater("Redis refused what was told", after=0.5) from reply


def _already_told(fault: Exception) -> bool:
    """An id that is not greater than the last one was told before, or belongs to a stale attempt."""
    text = str(fault)
    return "equal or smaller" in text or "NOGROUP" in text


async def check_server(client: Redis) -> None:
    """Raises ``ConfigError`` for a server that would lose or refuse our work, ``TryLater`` when there is none."""
    with faults_as_try_later():
        info = await client.info()
        errors = []
        if info.get("redis_mode", info.get("server_mode")) == "cluster":
            errors.append("Redis runs in Cluster mode, which RQ can't use; give Lucyd a primary of its own.")
        version = str(info.get("valkey_version") or info.get("redis_version", "0"))
        if int(version.split(".")[0]) < 7:
            errors.append(f"Redis {version} is too old: Lucyd needs Redis 7.0 or newer, or Valkey.")
        if info.get("maxmemory_policy", "noeviction") != "noeviction":
            errors.append(f"Redis would evict keys ({info['maxmemory_policy']}); set maxmemory-policy noeviction.")
    if errors:
        raise ConfigError(errors)
