"""Reads the monitor keys."""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.adapters.redis.connection import COMMAND_TIMEOUT, Redis, bounded
from shared.messages import routes

AT_MOST = 500


class RedisMonitorBoard:
    """``MonitorBoard`` of the gateway: at most 500 hashes of a kind."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def sessions(self) -> Sequence[Mapping[str, str]]:
        """See ``MonitorBoard.sessions``."""
        prefix = routes.MONITOR_SESSIONS
        return [{"conversation": key.removeprefix(prefix), **fields} for key, fields in await self._hashes(prefix)]

    async def processes(self) -> Sequence[Mapping[str, str]]:
        """See ``MonitorBoard.processes``."""
        services = await self._hashes(routes.MONITOR_SERVICES)
        workers = await self._hashes(routes.MONITOR_WORKERS)
        return [fields for _, fields in (*services, *workers)]

    async def _hashes(self, prefix: str) -> list[tuple[str, Mapping[str, str]]]:
        keys = await bounded(self._scan(prefix), COMMAND_TIMEOUT)
        pipeline: Any = self._client.pipeline(transaction=False)
        for key in keys:
            pipeline.hgetall(key)
        hashes = await bounded(pipeline.execute(), COMMAND_TIMEOUT) if keys else []
        return [(key, fields) for key, fields in zip(keys, hashes, strict=True) if fields]

    async def _scan(self, prefix: str) -> list[str]:
        keys: set[str] = set()
        async for key in self._client.scan_iter(match=f"{prefix}*", count=1000):
            keys.add(key)
            if len(keys) >= AT_MOST:
                break
        return sorted(keys)
