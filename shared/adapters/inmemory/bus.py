"""What travels, without a Redis. Everybody who is given the same bus hears each other."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from shared.adapters.inmemory.tables import as_json
from shared.messages.dead_entry import dead_entry
from shared.messages.run_events import ACCEPTED_ID, RunEvent, id_order, terminal_type
from shared.ports.bus import Batch, WakeUp
from shared.ports.clock import Clock

LONGEST_WAIT = 2.0


@dataclass(slots=True)
class _Entry:
    wake_up: WakeUp
    taken_at: float | None = None


@dataclass(slots=True)
class _Kept:
    """What a Redis holds; ``forget_everything`` makes a new one."""

    inbound: dict[str, _Entry] = field(default_factory=dict)
    streams: dict[UUID, list[RunEvent]] = field(default_factory=lambda: defaultdict(list))
    results: dict[UUID, Mapping[str, Any]] = field(default_factory=dict)
    monitor: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    owners: dict[str, str] = field(default_factory=dict)
    nudges: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    dead: list[Mapping[str, str]] = field(default_factory=list)
    filled: bool = False


class InMemoryOutbound:
    """``Outbound`` of the ports, of one channel."""

    def __init__(self, bus: "InMemoryBus", channel: str) -> None:
        self._bus = bus
        self._channel = channel

    async def nudged(self, *, within: timedelta) -> bool:
        """See ``Outbound.nudged``."""
        return await self._bus.nudged(self._channel, within=within)


class InMemoryBus:
    """``WakeUps``, ``Bulletin``, ``RunStreams`` and ``Announcements`` of the ports."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept = _Kept()
        self._entries = 0
        self._arrived = asyncio.Event()
        self._nudge = asyncio.Event()
        self._followers: dict[UUID, set[asyncio.Event]] = defaultdict(set)
        self._finished: asyncio.Queue[UUID] = asyncio.Queue()

    @property
    def monitor(self) -> Mapping[str, Mapping[str, str]]:
        """What operators see of each conversation."""
        return self._kept.monitor

    @property
    def owners(self) -> Mapping[str, str]:
        """What operators see of who has which conversation."""
        return self._kept.owners

    @property
    def dead(self) -> Sequence[Mapping[str, str]]:
        """What was told of runs that were given up."""
        return self._kept.dead

    @property
    def waiting(self) -> Sequence[WakeUp]:
        """Wake-ups that nobody has acknowledged."""
        return [entry.wake_up for entry in self._kept.inbound.values()]

    def forget_everything(self) -> None:
        """What FLUSHALL does."""
        self._kept = _Kept()

    async def wake(self, wake_ups: Sequence[WakeUp]) -> None:
        """See ``WakeUps.wake``."""
        for wake_up in wake_ups:
            self._add_wake_up(wake_up)
            if wake_up.run is not None:
                data = {"run_id": str(wake_up.run), "conversation": wake_up.conversation}
                self._add_event(wake_up.run, RunEvent(ACCEPTED_ID, "accepted", data))

    async def take(self, *, limit: int, wait: timedelta) -> Sequence[WakeUp]:
        """See ``WakeUps.take``. The wait is of real time, as nobody moves the clock meanwhile."""
        if wait and not self._fresh():
            self._arrived.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(wait.total_seconds(), LONGEST_WAIT)):
                    await self._arrived.wait()
        return self._hand_out(self._fresh()[:limit])

    async def take_left(self, *, mark: str, limit: int) -> tuple[Sequence[WakeUp], str]:
        """See ``WakeUps.take_left``."""
        fresh = self._fresh()
        is_left = mark and any(id_order(name) <= id_order(mark) for name in fresh)
        taken = self._hand_out(fresh[:limit]) if is_left else []
        return taken, next(reversed(self._kept.inbound), "")

    async def reclaim(self, *, idle: timedelta, limit: int) -> Sequence[WakeUp]:
        """See ``WakeUps.reclaim``."""
        before = self._clock.monotonic() - idle.total_seconds()
        taken = [
            name
            for name, entry in self._kept.inbound.items()
            if entry.taken_at is not None and entry.taken_at <= before
        ]
        return self._hand_out(taken[:limit])

    async def publish(self, batch: Batch) -> None:
        """See ``Bulletin.publish``."""
        for run, event in batch.events:
            self._add_event(run, event)
        for finished in batch.finished:
            kind = terminal_type(finished.outcome)
            self._add_event(finished.run, RunEvent(finished.terminal, kind, finished.outcome, finished.after))
            dead = dead_entry(finished.run, finished.conversation, finished.outcome)
            if dead is not None and finished.run not in self._kept.results:
                self._kept.dead.append(dead)
            self._kept.results[finished.run] = as_json(finished.outcome)
            self._finished.put_nowait(finished.run)
        for wake_up in batch.wake:
            self._add_wake_up(wake_up)
        for entry in batch.acknowledge:
            self._kept.inbound.pop(entry, None)
        for channel in batch.outbound:
            self._kept.nudges[channel] += 1
            self._nudge.set()
        for conversation, fields in batch.monitor.items():
            self._kept.monitor[conversation].update(fields)
        for conversation, owner in batch.owners.items():
            if owner:
                self._kept.owners[conversation] = owner
            else:
                self._kept.owners.pop(conversation, None)

    async def is_emptied(self) -> bool:
        """See ``Bulletin.is_emptied``."""
        return not self._kept.filled

    async def mark_filled(self) -> None:
        """See ``Bulletin.mark_filled``."""
        self._kept.filled = True

    async def nudged(self, channel: str, *, within: timedelta) -> bool:
        """See ``Outbound.nudged``. The wait is of real time, as in ``take``."""
        if not self._kept.nudges[channel]:
            self._nudge.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(within.total_seconds(), LONGEST_WAIT)):
                    await self._nudge.wait()
        return bool(self._kept.nudges.pop(channel, 0))

    async def read(self, run: UUID, *, after: str, limit: int = 500) -> Sequence[RunEvent]:
        """See ``RunStreams.read``."""
        events = self._kept.streams.get(run, [])
        return [event for event in events if id_order(event.id) > id_order(after)][:limit]

    async def results(self, runs: Sequence[UUID]) -> Mapping[UUID, Mapping[str, Any]]:
        """See ``RunStreams.results``."""
        return {run: self._kept.results[run] for run in runs if run in self._kept.results}

    async def finished(self) -> AsyncIterator[UUID]:
        """See ``Announcements.finished``."""
        while True:
            yield await self._finished.get()

    @contextlib.contextmanager
    def follow(self, run: UUID) -> Iterator[asyncio.Event]:
        """See ``Announcements.follow``."""
        nudge = asyncio.Event()
        nudge.set()
        self._followers[run].add(nudge)
        try:
            yield nudge
        finally:
            self._followers[run].discard(nudge)

    def _add_wake_up(self, wake_up: WakeUp) -> None:
        self._entries += 1
        name = f"{self._entries}-0"
        self._kept.inbound[name] = _Entry(replace(wake_up, entry=name))
        self._arrived.set()

    def _add_event(self, run: UUID, event: RunEvent) -> None:
        stream = self._kept.streams[run]
        if stream and id_order(event.id) <= id_order(stream[-1].id):
            return  # told before, or of a stale attempt
        stream.append(RunEvent(event.id, event.type, as_json(event.data), event.after))
        for nudge in self._followers[run]:
            nudge.set()

    def _fresh(self) -> list[str]:
        return [name for name, entry in self._kept.inbound.items() if entry.taken_at is None]

    def _hand_out(self, names: Sequence[str]) -> list[WakeUp]:
        for name in names:
            self._kept.inbound[name].taken_at = self._clock.monotonic()
        return [self._kept.inbound[name].wake_up for name in names]
