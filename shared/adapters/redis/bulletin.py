"""What a worker tells: run events, futures, monitor and owner keys, all in one pipeline."""

import time
from datetime import timedelta
from uuid import UUID

from shared.adapters.postgres.documents import to_json
from shared.adapters.redis.connection import COMMAND_TIMEOUT, Redis, bounded, raise_if_refused, send_all
from shared.adapters.redis.lines import Command
from shared.adapters.redis.wake_ups import wake_up_entry
from shared.ids import new_id
from shared.messages import routes
from shared.messages.dead_entry import dead_entry
from shared.messages.run_events import RunEvent, terminal_type
from shared.ports.bus import Batch
from shared.ports.runs import FinishedRun

STREAM_ENTRIES = 20_000
OUTBOUND_ENTRIES = 1000
DEAD_ENTRIES = 1000
VIEW_TTL = timedelta(minutes=10)
"""What operators look at; no longer than a result is kept."""

RENEW_WITHIN = timedelta(minutes=1)
"""So often the end of life of a stream is put off while its run goes on; the end of the run does so in any case."""

REMEMBERED = 10_000
"""Streams of runs that go on; the life of one that is forgotten is put off once more."""

# Several workers may tell one end at once, and each may tell it again: whoever sets the future first adds the entry.
TELL_DEAD = """
if redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2], 'GET') then return false end
return redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', unpack(ARGV, 4))
"""


def _seconds(life: timedelta) -> int:
    return max(1, round(life.total_seconds()))


class RedisBulletin:
    """``Bulletin`` of the ports."""

    def __init__(self, client: Redis, *, stream_ttl: timedelta, result_ttl: timedelta) -> None:
        self._client = client
        self._stream_ttl = _seconds(stream_ttl)
        self._result_ttl = _seconds(result_ttl)
        self._renew = min(RENEW_WITHIN.total_seconds(), self._stream_ttl / 4)
        self._mortal: dict[UUID, float] = {}
        self._view_ttl = _seconds(min(VIEW_TTL, result_ttl))

    async def publish(self, batch: Batch) -> None:
        """See ``Bulletin.publish``."""
        commands = self._events(batch)
        for finished in batch.finished:
            commands += self._end(finished)
        commands += [wake_up_entry(wake_up) for wake_up in batch.wake]
        if batch.acknowledge:
            commands.append(("XACK", routes.INBOUND, routes.WORKERS, *batch.acknowledge))
            commands.append(("XDEL", routes.INBOUND, *batch.acknowledge))
        for channel in batch.outbound:
            commands.append(
                ("XADD", routes.outbound(channel), "MAXLEN", "~", OUTBOUND_ENTRIES, "*", "channel", channel)
            )
        commands += _views(batch, self._view_ttl)
        if not commands:
            return
        try:
            raise_if_refused(await send_all(self._client, commands, COMMAND_TIMEOUT))
        except BaseException:
            self._mortal.clear()  # nobody knows what of it was done
            raise

    async def is_emptied(self) -> bool:
        """See ``Bulletin.is_emptied``."""
        emptied = not await bounded(self._client.exists(routes.GENERATION), COMMAND_TIMEOUT)
        if emptied:
            self._mortal.clear()  # what is told next makes its streams anew, and they are to have an end again
        return emptied

    async def mark_filled(self) -> None:
        """See ``Bulletin.mark_filled``."""
        await bounded(self._client.set(routes.GENERATION, str(new_id()), nx=True), COMMAND_TIMEOUT)

    def _events(self, batch: Batch) -> list[Command]:
        commands: list[Command] = []
        told: dict[UUID, str] = {}
        for run, event in batch.events:
            key = told.get(run)
            if key is None:
                key = told[run] = routes.run_events(run)
            commands.append(_entry(key, event))
        ended = {finished.run for finished in batch.finished}
        now = time.monotonic()
        for run, key in told.items():
            if run in ended:
                continue  # its end says both
            if self._mortal.get(run, now) <= now:
                commands.append(("EXPIRE", key, self._stream_ttl))
                self._remember(run, now + self._renew)
            commands.append(("PUBLISH", routes.run_channel(run), ""))
        return commands

    def _remember(self, run: UUID, until: float) -> None:
        """The stream of this run has an end of life that is good enough until then."""
        while len(self._mortal) >= REMEMBERED:
            del self._mortal[next(iter(self._mortal))]
        self._mortal[run] = until

    def _end(self, finished: FinishedRun) -> list[Command]:
        run = finished.run
        self._mortal.pop(run, None)
        key, kind = routes.run_events(run), terminal_type(finished.outcome)
        outcome = to_json(finished.outcome)
        return [
            _entry(key, RunEvent(finished.terminal, kind, finished.outcome, finished.after), outcome),
            ("EXPIRE", key, self._stream_ttl),
            self._future(finished, outcome),
            ("PUBLISH", routes.run_channel(run), ""),
            ("PUBLISH", routes.FINISHED, str(run)),
        ]

    def _future(self, finished: FinishedRun, outcome: str) -> Command:
        """Sets it; for a run that was given up it adds the entry, too, if there was none."""
        key = routes.run_result(finished.run)
        if (entry := dead_entry(finished.run, finished.conversation, finished.outcome)) is None:
            return ("SET", key, outcome, "EX", self._result_ttl)
        fields = [text for pair in entry.items() for text in pair]
        return ("EVAL", TELL_DEAD, 2, key, routes.DEAD, outcome, self._result_ttl, DEAD_ENTRIES, *fields)


def _entry(key: str, event: RunEvent, data: str | None = None) -> Command:
    said = ("type", event.type, "data", to_json(event.data) if data is None else data)
    after = () if event.after is None else ("after", event.after)
    return ("XADD", key, "MAXLEN", "~", STREAM_ENTRIES, event.id, *said, *after)


def _views(batch: Batch, seconds: int) -> list[Command]:
    commands: list[Command] = []
    for conversation, fields in batch.monitor.items():
        key = routes.monitor_session(conversation)
        commands.append(("HSET", key, *(text for pair in fields.items() for text in pair)))
        commands.append(("EXPIRE", key, seconds))
    for conversation, owner in batch.owners.items():
        if owner:
            commands.append(("SET", routes.owner(conversation), owner, "EX", seconds))
        else:
            commands.append(("DEL", routes.owner(conversation)))
    return commands
