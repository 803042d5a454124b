"""``lucyd:outbound:<channel>``: says to the bridge of a channel that something is to be sent."""

from datetime import timedelta
from typing import Any

from redis.exceptions import ResponseError

from shared.adapters.redis.connection import LONGEST_BLOCK, Redis, faults_as_try_later
from shared.messages import routes

READER = "bridge"
"""One bridge leads, so there is one name: what a dead one had read is met again by its heir."""

AT_ONCE = 1000


class RedisOutbound:
    """``Outbound`` of the ports."""

    def __init__(self, client: Redis, *, channel: str) -> None:
        self._client = client
        self._key = routes.outbound(channel)
        self._group = channel
        self._begun = False

    async def nudged(self, *, within: timedelta) -> bool:
        """See ``Outbound.nudged``."""
        with faults_as_try_later():
            entries = await self._read(within)
            if entries:
                # Nothing is lost by saying so before anything was sent: the row in Postgres is what is due.
                pipeline = self._client.pipeline(transaction=False)
                pipeline.xack(self._key, self._group, *entries)
                pipeline.xdel(self._key, *entries)
                await pipeline.execute()
        return bool(entries)

    async def _read(self, within: timedelta) -> list[str]:
        try:
            left = [] if self._begun else await self._entries("0", within)
            self._begun = True
            return left or await self._entries(">", within)
        except ResponseError as fault:
            if "NOGROUP" not in str(fault):
                raise
            await self._make_group()
            return await self._entries(">", within)

    async def _entries(self, after: str, within: timedelta) -> list[str]:
        block = max(1, round(min(within, LONGEST_BLOCK).total_seconds() * 1000))
        reply: Any = await self._client.xreadgroup(  # the client's own type covers every protocol version at once
            self._group, READER, {self._key: after}, count=AT_ONCE, block=block
        )
        return [entry for _, found in reply for entry, _ in found]

    async def _make_group(self) -> None:
        try:
            await self._client.xgroup_create(self._key, self._group, id="0", mkstream=True)
        except ResponseError as fault:
            if "BUSYGROUP" not in str(fault):  # a peer was quicker
                raise
