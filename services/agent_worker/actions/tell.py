"""What an attempt tells its clients: gathered for 50 ms, over all runs of the worker, and sent in one pipeline."""

import asyncio
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog

from services.agent_worker.rules.step_record import StepRecord
from shared.domain.run import Told
from shared.errors import TryLater
from shared.messages.run_events import STEP, EventType, RunEvent, event_id
from shared.ports.bus import Batch, Bulletin, WakeUp
from shared.ports.clock import Clock
from shared.ports.model import DeltaKind
from shared.ports.runs import FinishedRun, Runs

log = structlog.get_logger(__name__)

FLUSH_EVERY = timedelta(milliseconds=50)
ENDS_APART = timedelta(milliseconds=5)
"""When ends follow each other faster than that, one pipeline carries several; the first of them does not wait."""

VIEWS_AFTER = timedelta(milliseconds=250)
"""What operators look at is told so long after it changed: of a short run only how it ended, of a long one all."""

PUBLISHED_EVERY = timedelta(milliseconds=500)
PAUSE_WITHOUT_REDIS = timedelta(milliseconds=500)
EVENTS_KEPT = 100_000
EVENTS_A_FLUSH = 2_000
ENDS_KEPT = 5_000
ENDS_A_FLUSH = 200
ENTRIES_KEPT = 10_000
ENTRIES_A_FLUSH = 500


@dataclass(slots=True)
class Text:
    """Text of one step that grows until it is told. ``id`` is that of its last piece, ``after`` that of what was told
    before its first one; ``open``: more may be added."""

    type: EventType
    id: str
    after: str
    pieces: list[str]
    open: bool = True

    def event(self) -> RunEvent:
        """All of it as one event; nothing is added from here on."""
        self.open = False
        return RunEvent(self.id, self.type, {"text": "".join(self.pieces)}, self.after)


class Outlet:
    """Everything this worker has to tell. Keeps what Redis does not take, within bounds, and tells it later."""

    def __init__(self, bulletin: Bulletin, runs: Runs, clock: Clock) -> None:
        self._bulletin = bulletin
        self._runs = runs
        self._clock = clock
        self._events: list[tuple[UUID, RunEvent | Text]] = []
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
        self._views_due: dict[str, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._look_at_views: asyncio.TimerHandle | None = None

    def add(self, run: UUID, event: RunEvent | Text) -> None:
        """Tell an event of a run, or a text that goes on growing until it is told."""
        if len(self._events) >= EVENTS_KEPT:
            # Redis has been away for long: clients will find the end of these runs, not every piece of text.
            log.warning("events_dropped", count=len(self._events))
            _close(self._events)
            self._events.clear()
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

    def wake(self, conversation: str, principal: str = "") -> None:
        """Wake a peer for a conversation, which is of this principal if that is known."""
        if len(self._wake) < ENTRIES_KEPT:  # the sweep looks anyway
            self._wake.append(WakeUp(conversation, principal=principal))
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
        self._view_changed(conversation)

    def owner(self, conversation: str, owner: str) -> None:
        """Show operators who has a conversation; an empty text: nobody."""
        self._owners[conversation] = owner
        self._view_changed(conversation)

    def hurry(self) -> None:
        """Flush without waiting for the rest of the 50 ms."""
        self._urgent.set()
        self._something.set()

    async def flush_for_ever(self) -> None:
        """Flush until cancelled."""
        loop = self._loop = asyncio.get_running_loop()
        self._arm()
        flushed_at = 0.0
        while True:
            await self._something.wait()
            if not self._urgent.is_set():
                timer = loop.call_later(FLUSH_EVERY.total_seconds(), self._urgent.set)
                try:
                    await self._urgent.wait()
                finally:
                    timer.cancel()
            if (early := flushed_at + ENDS_APART.total_seconds() - loop.time()) > 0:
                await asyncio.sleep(early)
            flushed_at = loop.time()
            if not await self._flush(until=flushed_at):
                await self._clock.sleep(PAUSE_WITHOUT_REDIS.total_seconds())
            self._arm()

    async def flush(self) -> bool:
        """Tell all there is now; false when Redis did not take it and it is kept."""
        return await self._flush(until=math.inf)

    async def _flush(self, *, until: float) -> bool:
        """Tell all but the views that are due later than ``until``."""
        async with self._telling:  # two pipelines at once could overtake each other, and Redis refuses the later ids
            self._urgent.clear()
            self._something.clear()
            while self._pending(until):
                batch, began = self._next_batch(until), self._clock.monotonic()
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

    def _view_changed(self, conversation: str) -> None:
        if conversation not in self._views_due:
            self._views_due[conversation] = self._now() + VIEWS_AFTER.total_seconds()
            self._arm()

    def _now(self) -> float:
        return self._loop.time() if self._loop is not None else self._clock.monotonic()

    def _arm(self) -> None:
        """Have the views looked at when the first of them is due."""
        if self._loop is not None and self._look_at_views is None and self._views_due:
            due = next(iter(self._views_due.values()))
            self._look_at_views = self._loop.call_later(max(0.0, due - self._now()), self._views_are_due)

    def _views_are_due(self) -> None:
        self._look_at_views = None
        self.hurry()

    def _due_views(self, until: float) -> list[str]:
        """They stand in the order in which they fall due."""
        due = itertools.takewhile(lambda view: view[1] <= until, self._views_due.items())
        return [conversation for conversation, _ in itertools.islice(due, ENTRIES_A_FLUSH)]

    def _pending(self, until: float) -> bool:
        return bool(
            self._events
            or self._finished
            or self._acknowledge
            or self._wake
            or self._outbound
            or self._due_views(until)
        )

    def _next_batch(self, until: float) -> Batch:
        taken, self._events = self._events[:EVENTS_A_FLUSH], self._events[EVENTS_A_FLUSH:]
        events = [(run, event.event() if isinstance(event, Text) else event) for run, event in taken]
        finished: Sequence[FinishedRun] = ()
        if not self._events:  # the end of a run comes after everything else of it
            finished, self._finished = self._finished[:ENDS_A_FLUSH], self._finished[ENDS_A_FLUSH:]
        acknowledge, self._acknowledge = self._acknowledge[:ENTRIES_A_FLUSH], self._acknowledge[ENTRIES_A_FLUSH:]
        wake, self._wake = self._wake[:ENTRIES_A_FLUSH], self._wake[ENTRIES_A_FLUSH:]
        views = self._due_views(until)
        for conversation in views:
            del self._views_due[conversation]
        monitor = {key: self._monitor.pop(key) for key in views if key in self._monitor}
        owners = {key: self._owners.pop(key) for key in views if key in self._owners}
        outbound, self._outbound = tuple(sorted(self._outbound)), set()
        return Batch(events, finished, acknowledge, wake, monitor, owners, outbound)

    def _put_back(self, batch: Batch) -> None:
        self._events[:0] = batch.events
        self._finished[:0] = batch.finished
        self._acknowledge[:0] = batch.acknowledge
        self._wake[:0] = batch.wake
        for conversation, fields in batch.monitor.items():
            self._monitor[conversation] = {**fields, **self._monitor.get(conversation, {})}
        self._owners = {**batch.owners, **self._owners}
        again = dict.fromkeys((*batch.monitor, *batch.owners), 0.0)  # they are the first that fall due
        self._views_due = {**again, **{key: due for key, due in self._views_due.items() if key not in again}}
        self._outbound.update(batch.outbound)
        self._something.set()


def _close(events: Sequence[tuple[UUID, RunEvent | Text]]) -> None:
    for _, event in events:
        if isinstance(event, Text):
            event.open = False


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
        self._text: Text | None = None
        self._record = StepRecord()

    @property
    def last(self) -> str:
        """The last event that this attempt told, or else kept."""
        return self._last

    def piece(self, kind: DeltaKind, text: str) -> None:
        """A piece of the answer as it is written."""
        if not text:
            return
        type: EventType = "delta" if kind == "text" else "thinking"
        self._offset = min(self._offset + len(text), STEP - 1)
        id = event_id(self._epoch, self._step, self._offset)
        growing = self._text
        if growing is not None and growing.open and growing.type == type:
            growing.id = id
            growing.pieces.append(text)
        else:
            growing = self._text = Text(type, id, self._last, [text])
            self._outlet.add(self._run, growing)
        self._last = id
        self._record.add_text(self._step * STEP + self._offset, type, text)

    def event(self, type: EventType, data: Mapping[str, Any]) -> None:
        """Something other than text."""
        self._outlet.add(self._run, self._next(type, data))

    def event_once_stored(self, type: EventType, data: Mapping[str, Any]) -> None:
        """Something that nobody may hear of before it is stored; ``stored`` tells it."""
        self._held.append(self._next(type, data))

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
        self._text = None
        self._record = StepRecord()

    def monitor(self, **fields: Any) -> None:
        """Show operators what this attempt does."""
        self._outlet.monitor(self._conversation, fields)

    def _next(self, type: EventType, data: Mapping[str, Any]) -> RunEvent:
        self._text = None  # what is said next comes after this
        self._offset = min(self._offset + 1, STEP - 1)
        event = RunEvent(event_id(self._epoch, self._step, self._offset), type, data, self._last)
        self._last = event.id
        self._record.add(self._step * STEP + self._offset, type, data)
        return event
