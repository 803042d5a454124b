"""What an attempt tells its clients: gathered for 50 ms, over all runs of the worker, and sent in one pipeline."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

import structlog

from services.agent_worker.rules.step_record import StepRecord
from shared.domain.run import Told
from shared.errors import TryLater
from shared.messages.run_events import STEP, EventType, RunEvent, event_id, step_of
from shared.ports.bus import Batch, Bulletin, WakeUp
from shared.ports.clock import Clock
from shared.ports.model import DeltaKind
from shared.ports.runs import FinishedRun, Runs

log = structlog.get_logger(__name__)

T = TypeVar("T")

FLUSH_EVERY = timedelta(milliseconds=50)
PUBLISHED_EVERY = timedelta(milliseconds=500)
PAUSE_WITHOUT_REDIS = timedelta(milliseconds=500)
EVENTS_KEPT = 100_000
EVENTS_A_FLUSH = 2_000
ENDS_KEPT = 5_000
ENDS_A_FLUSH = 200
ENTRIES_KEPT = 10_000
ENTRIES_A_FLUSH = 500


class Outlet:
    """Everything this worker has to tell. Keeps what Redis does not take, within bounds, and tells it later."""

    def __init__(self, bulletin: Bulletin, runs: Runs, clock: Clock) -> None:
        self._bulletin = bulletin
        self._runs = runs
        self._clock = clock
        self._events: list[tuple[UUID, RunEvent]] = []
        self._tails: dict[UUID, int] = {}
        self._finished: list[FinishedRun] = []
        self._acknowledge: list[str] = []
        self._wake: list[WakeUp] = []
        self._monitor: dict[str, dict[str, str]] = {}
        self._owners: dict[str, str] = {}
        self._outbound: set[str] = set()
        self._told: list[UUID] = []
        self._told_since: float | None = None
        self._something = asyncio.Event()
        self._urgent = asyncio.Event()
        self._telling = asyncio.Lock()

    def add(self, run: UUID, event: RunEvent) -> None:
        """Tell an event of a run; neighbouring pieces of a step's text become one."""
        tail = self._tails.get(run)
        if tail is not None and event.type in {"delta", "thinking"}:
            _, last = self._events[tail]
            if last.type == event.type and step_of(last.id) == step_of(event.id):
                text = last.data["text"] + event.data["text"]
                self._events[tail] = (run, RunEvent(event.id, event.type, {"text": text}, last.after))
                return
        if len(self._events) >= EVENTS_KEPT:
            # Redis has been away for long: clients will find the end of these runs, not every piece of text.
            log.warning("events_dropped", count=len(self._events))
            self._events.clear()
            self._tails.clear()
        self._tails[run] = len(self._events)
        self._events.append((run, event))
        self._something.set()

    def finish(self, finished: FinishedRun) -> None:
        """Tell the end of a run, at once."""
        if len(self._finished) < ENDS_KEPT:  # Redis has been away for long: the sweep finds the rest in Postgres
            self._finished.append(finished)
        self.hurry()

    def acknowledge(self, entry: str) -> None:
        """Forget a wake-up."""
        if entry and len(self._acknowledge) < ENTRIES_KEPT:  # who keeps one too long has it reclaimed and dropped
            self._acknowledge.append(entry)
            self._something.set()

    def wake(self, conversation: str) -> None:
        """Wake a peer for a conversation."""
        if len(self._wake) < ENTRIES_KEPT:  # the sweep looks anyway
            self._wake.append(WakeUp(conversation))
        self.hurry()

    def nudge(self, channel: str) -> None:
        """Something is to be carried out to a channel."""
        self._outbound.add(channel)
        self._something.set()

    def monitor(self, conversation: str, fields: Mapping[str, Any]) -> None:
        """Show operators what goes on in a conversation."""
        shown = {key: str(value) for key, value in fields.items()}
        shown["updated_at"] = f"{self._clock.now().timestamp():.3f}"
        self._monitor.setdefault(conversation, {}).update(shown)
        self._something.set()

    def owner(self, conversation: str, owner: str) -> None:
        """Show operators who has a conversation; an empty text: nobody."""
        self._owners[conversation] = owner
        self._something.set()

    def hurry(self) -> None:
        """Flush without waiting for the rest of the 50 ms."""
        self._urgent.set()
        self._something.set()

    async def flush_for_ever(self) -> None:
        """Flush until cancelled."""
        while True:
            await self._something.wait()
            try:
                async with asyncio.timeout(FLUSH_EVERY.total_seconds()):
                    await self._urgent.wait()
            except TimeoutError:
                pass
            if not await self.flush():
                await self._clock.sleep(PAUSE_WITHOUT_REDIS.total_seconds())

    async def flush(self) -> bool:
        """Tell all there is now; false when Redis did not take it and it is kept."""
        async with self._telling:  # two pipelines at once could overtake each other, and Redis refuses the later ids
            self._urgent.clear()
            self._something.clear()
            while self._pending():
                batch, began = self._next_batch(), self._clock.monotonic()
                try:
                    await self._bulletin.publish(batch)
                except TryLater as fault:
                    log.warning("bulletin_not_published", reason=str(fault))
                    self._put_back(batch)
                    return False
                except asyncio.CancelledError:
                    self._put_back(batch)  # the flusher is stopped before the last flush; telling twice does no harm
                    raise
                except Exception:
                    # Something in it can't be told at all. It is dropped, and what counts of it is in Postgres; the
                    # other conversations of this worker must not end for it.
                    log.exception("batch_dropped", events=len(batch.events), ends=len(batch.finished))
                    continue
                self._told.extend(finished.run for finished in batch.finished)
                if batch.finished and self._told_since is None:
                    self._told_since = began
            return True

    async def remember_published(self) -> None:
        """Note in Postgres, in batches, which ends were told; until cancelled."""
        while True:
            await self._clock.sleep(PUBLISHED_EVERY.total_seconds())
            await self.note_published()

    async def note_published(self) -> None:
        """Note it now. What fails here is only told again by the sweep."""
        told, self._told = self._told, []
        since, self._told_since = self._told_since, None
        if told and since is not None:
            try:
                within = timedelta(seconds=self._clock.monotonic() - since)
                await self._runs.published(told, told_within=within)
            except TryLater:
                log.info("published_not_noted", runs=len(told))

    def _pending(self) -> bool:
        return bool(
            self._events
            or self._finished
            or self._acknowledge
            or self._wake
            or self._monitor
            or self._owners
            or self._outbound
        )

    def _next_batch(self) -> Batch:
        events, self._events = self._events[:EVENTS_A_FLUSH], self._events[EVENTS_A_FLUSH:]
        self._tails.clear()
        finished: Sequence[FinishedRun] = ()
        if not self._events:  # the end of a run comes after everything else of it
            finished, self._finished = self._finished[:ENDS_A_FLUSH], self._finished[ENDS_A_FLUSH:]
        acknowledge, self._acknowledge = self._acknowledge[:ENTRIES_A_FLUSH], self._acknowledge[ENTRIES_A_FLUSH:]
        wake, self._wake = self._wake[:ENTRIES_A_FLUSH], self._wake[ENTRIES_A_FLUSH:]
        monitor, self._monitor = _parted(self._monitor)
        owners, self._owners = _parted(self._owners)
        outbound, self._outbound = tuple(sorted(self._outbound)), set()
        return Batch(events, finished, acknowledge, wake, monitor, owners, outbound)

    def _put_back(self, batch: Batch) -> None:
        self._events[:0] = batch.events
        self._tails.clear()
        self._finished[:0] = batch.finished
        self._acknowledge[:0] = batch.acknowledge
        self._wake[:0] = batch.wake
        self._monitor = {**{key: dict(fields) for key, fields in batch.monitor.items()}, **self._monitor}
        self._owners = {**batch.owners, **self._owners}
        self._outbound.update(batch.outbound)
        self._something.set()


def _parted(views: dict[str, T]) -> tuple[dict[str, T], dict[str, T]]:
    """What one flush shows, and the rest."""
    if len(views) <= ENTRIES_A_FLUSH:
        return views, {}
    items = list(views.items())
    return dict(items[:ENTRIES_A_FLUSH]), dict(items[ENTRIES_A_FLUSH:])


class Teller:
    """Tells the events of one attempt, gives each its id, and remembers those of the current step.

    ``keep`` is the last event of the steps that earlier attempts have stored.
    """

    def __init__(self, outlet: Outlet, *, run: UUID, conversation: str, epoch: int, step: int, keep: str) -> None:
        self._outlet = outlet
        self._run = run
        self._conversation = conversation
        self._epoch = epoch
        self._step = step
        self._offset = 0
        self._last = keep
        self._held: list[RunEvent] = []
        self._record = StepRecord()

    @property
    def last(self) -> str:
        """The last event that this attempt told, or else kept."""
        return self._last

    def piece(self, kind: DeltaKind, text: str) -> None:
        """A piece of the answer as it is written."""
        if text:
            self._tell("delta" if kind == "text" else "thinking", {"text": text}, len(text))

    def event(self, type: EventType, data: Mapping[str, Any]) -> None:
        """Something other than text."""
        self._tell(type, data, 1)

    def event_once_stored(self, type: EventType, data: Mapping[str, Any]) -> None:
        """Something that nobody may hear of before it is stored; ``stored`` tells it."""
        self._held.append(self._next(type, data, 1))

    def stored(self) -> None:
        """What was held back is in Postgres by now."""
        held, self._held = self._held, []
        for event in held:
            self._outlet.add(self._run, event)

    def keep(self) -> str:
        """The id of the last event of the current step, which is about to be stored."""
        return event_id(self._epoch, self._step, self._offset)

    def told(self) -> Told | None:
        """What was told in the current step, to be stored with it; ``None``: nothing."""
        events = self._record.events()
        return Told(self._step, events) if events else None

    def step_stored(self, step: int) -> None:
        """Go on with the next step; the current one is in Postgres."""
        self._step = step
        self._offset = 0
        self._record = StepRecord()

    def monitor(self, **fields: Any) -> None:
        """Show operators what this attempt does."""
        self._outlet.monitor(self._conversation, fields)

    def _tell(self, type: EventType, data: Mapping[str, Any], length: int) -> None:
        self._outlet.add(self._run, self._next(type, data, length))

    def _next(self, type: EventType, data: Mapping[str, Any], length: int) -> RunEvent:
        self._offset = min(self._offset + length, STEP - 1)
        event = RunEvent(event_id(self._epoch, self._step, self._offset), type, data, self._last)
        self._last = event.id
        self._record.add(self._step * STEP + self._offset, type, data)
        return event
