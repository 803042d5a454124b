"""``lucyd:inbound``: wake-ups for workers, each read by one of them."""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import orjson
from redis.exceptions import ResponseError

from shared.adapters.redis.connection import (
    COMMAND_TIMEOUT,
    LONGEST_BLOCK,
    Ask,
    Redis,
    faults_as_try_later,
    raise_if_refused,
    send_all,
)
from shared.adapters.redis.lines import Command
from shared.messages import routes
from shared.messages.run_events import ACCEPTED_ID, id_order
from shared.ports.bus import WakeUp

WAKE_WITHIN = timedelta(milliseconds=200)
TIDY_EVERY = timedelta(minutes=1)
GONE_AFTER = timedelta(minutes=10)
"""A worker reads, or sweeps, every second or two; one that has done neither for so long is no more."""


class RedisWakeUps:
    """``WakeUps`` of the ports; ``consumer`` is this process's name in the group, ``ask`` the way that wakes take."""

    def __init__(self, client: Redis, *, consumer: str, stream_ttl: timedelta, ask: Ask | None = None) -> None:
        self._client = client
        self._ask = ask or partial(send_all, client)
        self._consumer = consumer
        self._stream_ttl = max(1, round(stream_ttl.total_seconds()))
        self._cursor = "0-0"
        self._tidied_at = time.monotonic()

    async def wake(self, wake_ups: Sequence[WakeUp]) -> None:
        """See ``WakeUps.wake``."""
        # A stream that already has more refuses the accepted event, which is as it should be.
        raise_if_refused(await self._ask(list(self._commands(wake_ups)), WAKE_WITHIN))

    def _commands(self, wake_ups: Sequence[WakeUp]) -> Iterator[Command]:
        for wake_up in wake_ups:
            yield wake_up_entry(wake_up)
            if wake_up.run is not None:
                key = routes.run_events(wake_up.run)
                data = orjson.dumps({"run_id": wake_up.run, "conversation": wake_up.conversation})
                yield ("XADD", key, ACCEPTED_ID, "type", "accepted", "data", data)
                yield ("EXPIRE", key, self._stream_ttl)

    async def take(self, *, limit: int, wait: timedelta) -> Sequence[WakeUp]:
        """See ``WakeUps.take``."""
        # Peers that wait were served when the entry was added; who does not wait takes what none of them stood for.
        block = ("BLOCK", max(1, round(min(wait, LONGEST_BLOCK).total_seconds() * 1000))) if wait else ()
        words = ("XREADGROUP", "GROUP", routes.WORKERS, self._consumer, "COUNT", limit, *block)
        (reply,) = await send_all(self._client, [(*words, "STREAMS", routes.INBOUND, ">")], COMMAND_TIMEOUT)
        if isinstance(reply, ResponseError):
            with faults_as_try_later():
                if "NOGROUP" not in str(reply):
                    raise reply
                await self._make_group()
            return []
        return [_wake_up(entry, dict(zip(fields[::2], fields[1::2], strict=True))) for entry, fields in _entries(reply)]

    async def take_left(self, *, mark: str, limit: int) -> tuple[Sequence[WakeUp], str]:
        """See ``WakeUps.take_left``. A mark is the id of the newest entry, of a stream from which all that is done is
        deleted."""
        newest, groups = await send_all(
            self._client,
            [("XREVRANGE", routes.INBOUND, "+", "-", "COUNT", 1), ("XINFO", "GROUPS", routes.INBOUND)],
            COMMAND_TIMEOUT,
        )
        raise_if_refused([newest, *([] if _has_no_stream(groups) else [groups])])
        is_left = mark and any(id_order(taken) < id_order(mark) for taken in _taken_up_to(groups))
        # What a peer has taken meanwhile is not there any more, so nothing is taken twice.
        taken = await self.take(limit=limit, wait=timedelta(0)) if is_left else []
        return taken, newest[0][0] if isinstance(newest, list) and newest else ""

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


def _entries(reply: Any) -> Iterator[tuple[str, Sequence[str]]]:
    """What was read of any stream: RESP3 gives a map of them, RESP2 a list of pairs, both nothing when none came."""
    streams = reply.items() if isinstance(reply, dict) else reply or ()
    for _, entries in streams:
        yield from entries


def _has_no_stream(groups: Any) -> bool:
    return isinstance(groups, ResponseError) and "no such key" in str(groups)


def _taken_up_to(groups: Any) -> Iterator[str]:
    """The last entry that was given to a worker; nothing when there is no stream, or no group."""
    for group in groups if isinstance(groups, list) else ():
        fields = group if isinstance(group, dict) else dict(zip(group[::2], group[1::2], strict=True))
        if fields["name"] == routes.WORKERS:
            yield fields["last-delivered-id"]


def wake_up_entry(wake_up: WakeUp) -> Command:
    """The command that adds one wake-up."""
    run = () if wake_up.run is None else ("run", str(wake_up.run))
    trace = () if wake_up.traceparent is None else ("traceparent", wake_up.traceparent)
    principal = ("principal", wake_up.principal) if wake_up.principal else ()
    return ("XADD", routes.INBOUND, "*", "conversation", wake_up.conversation, *run, *trace, *principal)


def _wake_up(entry: str, fields: Mapping[str, str]) -> WakeUp:
    run = fields.get("run")
    return WakeUp(
        fields.get("conversation", ""),
        UUID(run) if run else None,
        fields.get("traceparent"),
        entry,
        fields.get("principal", ""),
    )
