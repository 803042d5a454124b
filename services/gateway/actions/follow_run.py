"""Follow a run: what was told so far, then what is told, each event once, until the end."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from uuid import UUID

from services.gateway.actions.watch_runs import LOOK_AGAIN, RunWatch
from shared.errors import TryLater
from shared.messages.run_events import RunEvent, id_order, step_of, terminal_type
from shared.messages.step_events import rest_of
from shared.ports.bus import RunStreams
from shared.ports.history import Transcripts
from shared.ports.runs import FinishedRun

LAST_WORDS = timedelta(seconds=2)
LAST_WORDS_LOOK = timedelta(milliseconds=100)
BEGINNING = "0-0"
PAGE = 100
"""Events read at a time: what a client that does not read keeps in memory, beside what was written to it."""


async def follow_run(
    run: UUID, *, after: str, streams: RunStreams, watch: RunWatch, transcripts: Transcripts
) -> AsyncGenerator[RunEvent | None, None]:
    """Events after the id ``after`` (``0-0``: all), ending with the terminal one; ``None``: there is nothing to tell.

    Redis tells what is new. What it has lost, or never had, comes from the stored steps; of a step in hand that means:
    as soon as it is stored. Ids only grow, and nothing is left out but what no step and no end has stored. ``None``
    comes whenever it was looked for in vain, and at least every fifteen seconds: a sign of life may be due.
    """
    follower = _Follower(run, after, streams, transcripts)
    with watch.follow(run) as watched:
        await follower.begin()
        while not follower.is_over:
            if watched.wakes():
                follower.silent()
            events = await follower.events()
            for event in events:
                yield event
            if events:
                watched.speaks()
            if follower.has_more or follower.is_over:
                continue
            watched.doubtful = follower.doubts
            if not events:
                yield None
            if follower.ends_soon:
                await _nudged(watched.nudge, LAST_WORDS_LOOK)
            else:
                await watched.nudge.wait()


async def _nudged(nudge: asyncio.Event, within: timedelta) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within.total_seconds()):
            await nudge.wait()


class _Follower:
    """One reader of one run, and how far it has come.

    ``last`` is the newest id that was given, or up to which there is nothing to give. ``read_to`` is how far the stream
    was read: what lies between the two can't be given yet, since something before it is missing. It ``doubts`` whether
    it has seen all when the store was not asked yet, or something did not answer.
    """

    def __init__(self, run: UUID, after: str, streams: RunStreams, transcripts: Transcripts) -> None:
        self._run = run
        self._streams = streams
        self._transcripts = transcripts
        self._loop = asyncio.get_running_loop()
        self._last = after
        self._read_to = after
        self._asked_at = -LOOK_AGAIN.total_seconds()
        self._ask_store = False
        self._end: RunEvent | None = None
        self._end_due_at = 0.0
        self.misses_something = False
        self._unread = False
        self._unasked = True
        self.has_more = False
        self.is_over = False

    @property
    def doubts(self) -> bool:
        """Whether it should look again though nobody says so."""
        return self._unread or self._unasked

    @property
    def ends_soon(self) -> bool:
        """The end is known, and waits for its last words."""
        return self._end is not None

    async def begin(self) -> None:
        """Look into Postgres first when there is no stream: too old, or Redis was emptied, or is away."""
        self._ask_store = await self._stream_is_gone()

    def silent(self) -> None:
        """Nothing came for a while: what is stored may be more."""
        self._ask_store = self._ask_store or self._end is None or self.misses_something

    async def events(self) -> Sequence[RunEvent]:
        """What can be given now, and the end when it is due."""
        self.has_more = False
        found: list[RunEvent] = []
        if not self._ask_store or self._unread:
            found += await self._from_stream()
        if self._ask_store:
            found += await self._from_store()
        if self._end is not None and not self.is_over and not self._ask_store and self._loop.time() >= self._end_due_at:
            self.is_over = True
            if id_order(self._end.id) > id_order(self._last):
                found.append(self._end)
        return found

    async def _from_stream(self) -> list[RunEvent]:
        found: list[RunEvent] = []
        page = await self._read(self._read_to, PAGE)
        self.has_more = len(page) == PAGE
        for event in page:
            if self._is_next(event):
                if (rest := rest_of(event, self._last)) is not None:
                    found.append(rest)
                self._last = event.id
                self.misses_something = self._ask_store = False
                self.is_over = event.terminal
            elif not self.misses_something or event.terminal or step_of(event.id) != step_of(self._read_to):
                self.misses_something = self._ask_store = True  # it may be stored: ask whenever a step has ended
            self._read_to = event.id
        if self.misses_something and self._loop.time() - self._asked_at >= LOOK_AGAIN.total_seconds():
            self._ask_store = True
        return found

    def _is_next(self, event: RunEvent) -> bool:
        """Whether nothing is missing before it. An end that was told by the sweep does not say."""
        if event.after is None:
            return not event.terminal
        return id_order(event.after) <= id_order(self._last)

    async def _from_store(self) -> Sequence[RunEvent]:
        self._asked_at = self._loop.time()
        self._ask_store = False
        try:
            told = await self._transcripts.told(self._run, after=self._last)
        except TryLater:
            self._unasked = True
            return ()
        self._unasked = False
        came_to = told.events[-1].id if told.events else self._last
        if told.ended is not None:
            await self._end_with(told.ended)
        elif (
            told.complete_to is not None
            and id_order(told.complete_to) > id_order(came_to)
            # A stream that is whole may still bring what was never stored: by an older worker, or too much of it.
            and (self.misses_something or await self._stream_is_gone())
        ):
            came_to = told.complete_to
        if came_to != self._last:
            self._last = self._read_to = came_to
            self.misses_something = False
            self.has_more = True
        self._ask_store = told.more
        return told.events

    async def _end_with(self, finished: FinishedRun) -> None:
        if self._end is None:
            self._end = RunEvent(finished.terminal, terminal_type(finished.outcome), finished.outcome)
            self._end_due_at = self._loop.time() + LAST_WORDS.total_seconds()
        seen = id_order(finished.terminal) <= id_order(self._last)
        if seen or self.misses_something or await self._stream_is_gone():
            self._end_due_at = 0.0  # else its last words may still be on their way; the end must not overtake them

    async def _stream_is_gone(self) -> bool:
        return not await self._read(BEGINNING, 1)

    async def _read(self, after: str, limit: int) -> Sequence[RunEvent]:
        try:
            events = await self._streams.read(self._run, after=after, limit=limit)
        except TryLater:
            self._unread = True
            return ()
        self._unread = False
        return events
