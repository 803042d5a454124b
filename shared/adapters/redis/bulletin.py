"""What a worker tells: run events, futures, monitor and owner keys, all in one pipeline."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from shared.adapters.postgres.documents import to_json
from shared.adapters.redis.connection import COMMAND_TIMEOUT, Redis, bounded, raise_if_refused
from shared.adapters.redis.wake_ups import add_wake_up
from shared.ids import new_id
from shared.messages import routes
from shared.messages.dead_entry import dead_entry
from shared.messages.run_events import RunEvent, terminal_type
from shared.ports.bus import Batch
from shared.ports.runs import FinishedRun

STREAM_ENTRIES = 20_000
OUTBOUND_ENTRIES = 1000
DEAD_ENTRIES = 1000
MONITOR_TTL = timedelta(minutes=10)
OWNER_TTL = timedelta(minutes=10)

# Several workers may tell one end at once, and each may tell it again: whoever sets the future first adds the entry.
TELL_DEAD = """
if redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2], 'GET') then return false end
return redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', unpack(ARGV, 4))
"""


class RedisBulletin:
    """``Bulletin`` of the ports."""

    def __init__(self, client: Redis, *, stream_ttl: timedelta, result_ttl: timedelta) -> None:
        self._client = client
        self._stream_ttl = stream_ttl
        self._result_ttl = result_ttl

    async def publish(self, batch: Batch) -> None:
        """See ``Bulletin.publish``."""
        pipeline = self._client.pipeline(transaction=False)
        self._add_events(pipeline, batch)
        for finished in batch.finished:
            self._add_finished(pipeline, finished)
        for wake_up in batch.wake:
            add_wake_up(pipeline, wake_up)
        if batch.acknowledge:
            pipeline.xack(routes.INBOUND, routes.WORKERS, *batch.acknowledge)
            pipeline.xdel(routes.INBOUND, *batch.acknowledge)
        for channel in batch.outbound:
            pipeline.xadd(routes.outbound(channel), {"channel": channel}, maxlen=OUTBOUND_ENTRIES, approximate=True)
        _add_views(pipeline, batch)
        if len(pipeline) > 0:
            raise_if_refused(await bounded(pipeline.execute(raise_on_error=False), COMMAND_TIMEOUT))

    async def is_emptied(self) -> bool:
        """See ``Bulletin.is_emptied``."""
        return not await bounded(self._client.exists(routes.GENERATION), COMMAND_TIMEOUT)

    async def mark_filled(self) -> None:
        """See ``Bulletin.mark_filled``."""
        await bounded(self._client.set(routes.GENERATION, str(new_id()), nx=True), COMMAND_TIMEOUT)

    def _add_events(self, pipeline: Any, batch: Batch) -> None:
        told: set[UUID] = set()
        for run, event in batch.events:
            self._add_event(pipeline, run, event)
            told.add(run)
        for run in told:
            pipeline.expire(routes.run_events(run), self._stream_ttl)
            pipeline.publish(routes.run_channel(run), "")

    def _add_event(self, pipeline: Any, run: UUID, event: RunEvent) -> None:
        fields = {"type": event.type, "data": to_json(event.data)}
        if event.after is not None:
            fields["after"] = event.after
        pipeline.xadd(routes.run_events(run), fields, id=event.id, maxlen=STREAM_ENTRIES, approximate=True)

    def _add_finished(self, pipeline: Any, finished: FinishedRun) -> None:
        run = finished.run
        kind = terminal_type(finished.outcome)
        event = RunEvent(finished.terminal, kind, finished.outcome, finished.after)
        self._add_event(pipeline, run, event)
        pipeline.expire(routes.run_events(run), self._stream_ttl)
        if (entry := dead_entry(run, finished.conversation, finished.outcome)) is not None:
            self._add_dead(pipeline, finished, entry)
        else:
            pipeline.set(routes.run_result(run), to_json(finished.outcome), ex=self._result_ttl)
        pipeline.publish(routes.run_channel(run), "")
        pipeline.publish(routes.FINISHED, str(run))

    def _add_dead(self, pipeline: Any, finished: FinishedRun, entry: Mapping[str, str]) -> None:
        """Set its future, and add the entry if there was none."""
        keys = (routes.run_result(finished.run), routes.DEAD)
        seconds = max(1, round(self._result_ttl.total_seconds()))
        fields = [text for pair in entry.items() for text in pair]
        pipeline.eval(TELL_DEAD, len(keys), *keys, to_json(finished.outcome), seconds, DEAD_ENTRIES, *fields)


def _add_views(pipeline: Any, batch: Batch) -> None:
    for conversation, fields in batch.monitor.items():
        key = routes.monitor_session(conversation)
        pipeline.hset(key, mapping=fields)
        pipeline.expire(key, MONITOR_TTL)
    for conversation, owner in batch.owners.items():
        if owner:
            pipeline.set(routes.owner(conversation), owner, ex=OWNER_TTL)
        else:
            pipeline.delete(routes.owner(conversation))
