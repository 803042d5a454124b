"""``lucyd:inbound``: wake-ups for workers, each read by one of them."""

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import orjson
from redis.exceptions import ResponseError

from shared.adapters.redis.connection import LONGEST_BLOCK, Redis, bounded, faults_as_try_later, raise_if_refused
from shared.messages import routes
from shared.messages.run_events import ACCEPTED_ID
from shared.ports.bus import WakeUp

WAKE_WITHIN = timedelta(milliseconds=200)
TIDY_EVERY = timedelta(minutes=1)
GONE_AFTER = timedelta(minutes=10)
"""A worker reads every second or two; one that has not read for so long is no more."""


class RedisWakeUps:
    """``WakeUps`` of the ports; ``consumer`` is this process's name in the group."""

    def __init__(self, client: Redis, *, consumer: str, stream_ttl: timedelta) -> None:
        self._client = client
        self._consumer = consumer
        self._stream_ttl = stream_ttl
        self._cursor = "0-0"
        self._tidied_at = time.monotonic()

    async def wake(self, wake_ups: Sequence[WakeUp]) -> None:
        """See ``WakeUps.wake``."""
        pipeline = self._client.pipeline(transaction=False)
        for wake_up in wake_ups:
            add_wake_up(pipeline, wake_up)
            if wake_up.run is not None:
                key = routes.run_events(wake_up.run)
                data = orjson.dumps({"run_id": wake_up.run, "conversation": wake_up.conversation})
                pipeline.xadd(key, {"type": "accepted", "data": data}, id=ACCEPTED_ID)
                pipeline.expire(key, self._stream_ttl)
        # A stream that already has more refuses the accepted event, which is as it should be.
        raise_if_refused(await bounded(pipeline.execute(raise_on_error=False), WAKE_WITHIN))

    async def take(self, *, limit: int, wait: timedelta) -> Sequence[WakeUp]:
        """See ``WakeUps.take``."""
        reply: Any  # the client's own type covers every protocol version at once
        block = round(min(wait, LONGEST_BLOCK).total_seconds() * 1000)
        with faults_as_try_later():
            try:
                reply = await self._client.xreadgroup(
                    routes.WORKERS, self._consumer, {routes.INBOUND: ">"}, count=limit, block=max(1, block)
                )
            except ResponseError as fault:
                if "NOGROUP" not in str(fault):
                    raise
                await self._make_group()
                return []
        return [_wake_up(entry, fields) for _, entries in reply for entry, fields in entries]

    async def reclaim(self, *, idle: timedelta, limit: int) -> Sequence[WakeUp]:
        """See ``WakeUps.reclaim``."""
        with faults_as_try_later():
            try:
                self._cursor, entries, _ = await self._client.xautoclaim(
                    routes.INBOUND,
                    routes.WORKERS,
                    self._consumer,
                    min_idle_time=round(idle.total_seconds() * 1000),
                    start_id=self._cursor,
                    count=limit,
                )
            except ResponseError as fault:
                if "NOGROUP" not in str(fault):
                    raise
                return []
            if time.monotonic() - self._tidied_at >= TIDY_EVERY.total_seconds():
                self._tidied_at = time.monotonic()
                await self._forget_consumers()
        return [_wake_up(entry, fields) for entry, fields in entries]

    async def _forget_consumers(self) -> None:
        """Every start of a worker is a new consumer; without this the group would grow for ever."""
        for consumer in await self._client.xinfo_consumers(routes.INBOUND, routes.WORKERS):
            if consumer["pending"] == 0 and consumer["idle"] >= GONE_AFTER.total_seconds() * 1000:
                await self._client.xgroup_delconsumer(routes.INBOUND, routes.WORKERS, consumer["name"])

    async def _make_group(self) -> None:
        try:
            await self._client.xgroup_create(routes.INBOUND, routes.WORKERS, id="0", mkstream=True)
        except ResponseError as fault:
            if "BUSYGROUP" not in str(fault):  # a peer was quicker
                raise


def add_wake_up(pipeline: Any, wake_up: WakeUp) -> None:
    """Queue one wake-up on a pipeline."""
    fields = {"conversation": wake_up.conversation}
    if wake_up.run is not None:
        fields["run"] = str(wake_up.run)
    if wake_up.traceparent is not None:
        fields["traceparent"] = wake_up.traceparent
    pipeline.xadd(routes.INBOUND, fields)


def _wake_up(entry: str, fields: Mapping[str, str]) -> WakeUp:
    run = fields.get("run")
    return WakeUp(fields.get("conversation", ""), UUID(run) if run else None, fields.get("traceparent"), entry)
