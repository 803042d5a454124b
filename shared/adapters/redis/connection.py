"""The Redis client with our own bounds, and what a server must be to be used."""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from shared.adapters.redis.lines import LINES, Command, TcpLine
from shared.errors import ConfigError, TryLater

CONNECT_TIMEOUT = timedelta(seconds=2)
COMMAND_TIMEOUT = timedelta(seconds=5)
LONGEST_BLOCK = timedelta(seconds=2)
"""A blocking read ends well before the socket's own timeout, which would look like a dead server."""

USUAL_PORT = 6379
_CONNECTING = re.compile(r"^Error (-?\d+) (?:while )?connecting to \S+\. ")

BOUNDS: Mapping[str, Any] = {
    "socket_connect_timeout": CONNECT_TIMEOUT.total_seconds(),
    "socket_timeout": COMMAND_TIMEOUT.total_seconds(),
    "socket_keepalive": True,
    "retry_on_error": [redis.exceptions.ConnectionError],
}
"""Of every client: it fails within seconds instead of retrying for minutes."""

NO_ADDRESS = "LUCYD_REDIS_URL is not a Redis address (redis://host:port/0 or rediss://...)"

Redis = redis.asyncio.Redis

Ask = Callable[[Sequence[Command], timedelta], Awaitable[Sequence[Any]]]
"""Sends commands and returns their replies within a time, as ``send_all`` does over any free line."""


@contextlib.asynccontextmanager
async def open_redis(url: str) -> AsyncIterator[Redis]:
    """A client that fails within seconds instead of retrying for minutes; callers decide what a fault means."""
    try:
        client = redis.asyncio.Redis.from_url(url, decode_responses=True, retry=Retry(NoBackoff(), 1), **BOUNDS)
    except ValueError as fault:
        raise ConfigError([NO_ADDRESS]) from fault
    client.connection_pool.connection_class = LINES.get(urlsplit(url).scheme, TcpLine)
    try:
        yield client
    finally:
        await client.aclose()


def address_of(url: str) -> str:
    """``host:port`` of an address, never its password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or USUAL_PORT
    except ValueError:
        return "an address that can't be read"
    if parts.scheme == "unix":
        return parts.path
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reason_of(fault: BaseException) -> str:
    """What the client says happened, without the address that it repeats and without a period at its end."""
    if isinstance(fault, TimeoutError | redis.exceptions.TimeoutError | asyncio.CancelledError):
        return "no answer"
    said = str(fault).strip()
    if connecting := _CONNECTING.match(said):
        number = int(connecting[1])
        said = os.strerror(number) if number > 0 else said[connecting.end() :]
    return " ".join(said.split()).rstrip(".") or type(fault).__name__


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


async def send_all(client: Redis, commands: Sequence[Command], limit: timedelta) -> Sequence[Any]:
    """Send commands in one go; their replies in order, refusals (``redis.exceptions.ResponseError``) among them.

    Costs a fraction of the client's own pipeline, and does no more than that with the replies. Sent once more when the
    line turns out to be broken, as the client does. Raises ``TryLater``, after ``limit`` at the latest.
    """
    pool: Any = client.connection_pool
    with faults_as_try_later():
        async with asyncio.timeout(limit.total_seconds()):
            for again in (True, False):
                line = await pool.get_connection()
                try:
                    replies: list[Any] = await line.exchange(commands)
                except redis.exceptions.ConnectionError:
                    if not again:
                        raise
                else:
                    return replies
                finally:
                    await pool.release(line)
    raise AssertionError("unreachable")


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
