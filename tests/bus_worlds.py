"""The two buses that the contract is asked of, and how a test looks into them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any, Protocol

from shared.adapters.inmemory.bus import InMemoryBus, InMemoryOutbound
from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.redis.announcements import RedisAnnouncements
from shared.adapters.redis.bulletin import RedisBulletin
from shared.adapters.redis.connection import Redis
from shared.adapters.redis.outbound import RedisOutbound
from shared.adapters.redis.run_streams import RedisRunStreams
from shared.adapters.redis.wake_ups import RedisWakeUps
from shared.messages import routes
from shared.ports.bus import Announcements, Bulletin, Outbound, RunStreams, WakeUps

HOUR = timedelta(hours=1)


class BusWorld(Protocol):
    """All four ports, and a second reader of the same group."""

    wake_ups: WakeUps
    peer: WakeUps
    bulletin: Bulletin
    streams: RunStreams
    announcements: Announcements
    outbound: Outbound

    async def wait(self, seconds: float) -> None: ...

    async def forget_everything(self) -> None: ...

    async def waiting(self) -> Sequence[str]: ...

    async def owner(self, conversation: str) -> str | None: ...

    async def monitor(self, conversation: str) -> dict[str, str]: ...

    async def dead(self) -> Sequence[dict[str, str]]: ...


class InMemoryBusWorld:
    """Over dictionaries."""

    def __init__(self) -> None:
        self._clock = ManualClock()
        self._bus = InMemoryBus(self._clock)
        self.wake_ups: WakeUps = self._bus
        self.peer: WakeUps = self._bus
        self.bulletin: Bulletin = self._bus
        self.streams: RunStreams = self._bus
        self.announcements: Announcements = self._bus
        self.outbound: Outbound = InMemoryOutbound(self._bus, "telegram")

    async def wait(self, seconds: float) -> None:
        self._clock.advance(seconds)

    async def forget_everything(self) -> None:
        self._bus.forget_everything()

    async def waiting(self) -> Sequence[str]:
        return [wake_up.conversation for wake_up in self._bus.waiting]

    async def owner(self, conversation: str) -> str | None:
        return self._bus.owners.get(conversation)

    async def monitor(self, conversation: str) -> dict[str, str]:
        return dict(self._bus.monitor.get(conversation, {}))

    async def dead(self) -> Sequence[dict[str, str]]:
        return [dict(entry) for entry in self._bus.dead]


class RedisBusWorld:
    """Over Redis."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self.wake_ups: WakeUps = RedisWakeUps(client, consumer="me", stream_ttl=HOUR)
        self.peer: WakeUps = RedisWakeUps(client, consumer="peer", stream_ttl=HOUR)
        self.bulletin: Bulletin = RedisBulletin(client, stream_ttl=HOUR, result_ttl=HOUR)
        self.streams: RunStreams = RedisRunStreams(client)
        self._announcements = RedisAnnouncements(client)
        self.announcements: Announcements = self._announcements
        self.outbound: Outbound = RedisOutbound(client, channel="telegram")

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator["RedisBusWorld"]:
        task = asyncio.create_task(self._announcements.listen())
        async with asyncio.timeout(5):
            while (await self._client.pubsub_numsub(routes.FINISHED))[0][1] == 0:
                await asyncio.sleep(0.005)
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def forget_everything(self) -> None:
        await self._client.flushall()

    async def waiting(self) -> Sequence[str]:
        entries: Any = await self._client.xrange(routes.INBOUND)
        return [fields["conversation"] for _, fields in entries]

    async def owner(self, conversation: str) -> str | None:
        value = await self._client.get(routes.owner(conversation))
        return None if value is None else str(value)

    async def monitor(self, conversation: str) -> dict[str, str]:
        fields: Any = await self._client.hgetall(routes.monitor_session(conversation))
        return dict(fields)

    async def dead(self) -> Sequence[dict[str, str]]:
        entries: Any = await self._client.xrange(routes.DEAD)
        return [dict(fields) for _, fields in entries]
