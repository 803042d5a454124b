"""A Redis that the operator named: looked at before anything starts, as Postgres is by its migration."""

import asyncio
from datetime import timedelta

from shared.adapters.redis.connection import address_of, check_server, open_redis, reason_of
from shared.errors import ConfigError, TryLater

LOOK_FOR = timedelta(seconds=3)


def check_redis(url: str) -> None:
    """Raises ``ConfigError`` when no Redis answers there within ``LOOK_FOR``, or one that must not be used."""
    try:
        asyncio.run(_look(url))
    except (TryLater, TimeoutError) as fault:
        reason = reason_of(fault.__cause__ or fault)
        raise ConfigError(
            [f"Redis at {address_of(url)} can't be reached: {reason}; start it, or correct LUCYD_REDIS_URL"]
        ) from fault


async def _look(url: str) -> None:
    async with asyncio.timeout(LOOK_FOR.total_seconds()), open_redis(url) as client:
        await check_server(client)
