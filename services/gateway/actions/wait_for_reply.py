"""Wait for runs to end: told by Redis, and healed by one query a second for all that are awaited."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog

from shared.domain.run import Question
from shared.errors import TryLater
from shared.ports.bus import Announcements, RunStreams
from shared.ports.clock import Clock
from shared.ports.runs import Inbox

log = structlog.get_logger(__name__)

Outcome = Mapping[str, Any]

HEAL_EVERY = timedelta(seconds=1)
AT_ONCE = 500


class Expected:
    """The end of one run, for one caller; or the question that it stops for."""

    __slots__ = ("_asked", "_is_over", "_outcome", "_waiter", "_waits_for_end")

    def __init__(self) -> None:
        self._outcome: Outcome | None = None
        self._asked: Question | None = None
        self._is_over = False
        self._waiter: asyncio.Future[None] | None = None
        self._waits_for_end = False

    async def outcome(self, *, within: timedelta) -> Outcome | Question | None:
        """The run's outcome, or what it asks its person, or ``None`` when neither came in time: it goes on."""
        if not self._is_over and self._asked is None:
            await self._wait(within)
        return self._outcome if self._is_over else self._asked

    async def end(self, *, within: timedelta) -> bool:
        """Wait for the end, whatever is asked meanwhile; false when it did not come in time."""
        if not self._is_over:
            self._waits_for_end = True
            await self._wait(within)
        return self._outcome is not None

    def tell(self, outcome: Outcome | None) -> None:
        """The run has ended so; ``None``: nobody waits any longer. What is told first counts."""
        if not self._is_over:
            self._outcome, self._is_over = outcome, True
            self._wake()

    def ask(self, question: Question) -> None:
        """The run asks its person. What is asked first counts."""
        if self._asked is None:
            self._asked = question
            if not self._waits_for_end:
                self._wake()

    async def _wait(self, within: timedelta) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(within.total_seconds(), self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class WaitingRoom:
    """Everybody in this process who awaits a reply. No one holds a connection of their own."""

    def __init__(self, announcements: Announcements, streams: RunStreams, inbox: Inbox, clock: Clock) -> None:
        self._announcements = announcements
        self._streams = streams
        self._inbox = inbox
        self._clock = clock
        self._awaited: dict[UUID, list[Expected]] = {}
        self._told: asyncio.Queue[UUID] = asyncio.Queue()
        self._looking: set[asyncio.Task[None]] = set()
        self._closed = False

    @contextlib.contextmanager
    def expect(self, run: UUID) -> Iterator[Expected]:
        """Begin to wait, before the run is accepted: its end can come quicker than the answer to accept.

        Raises ``TryLater`` when this gateway is being stopped; nothing was accepted then.
        """
        if self._closed:
            raise TryLater("this gateway is being stopped", after=1.0)
        expected = Expected()
        self._awaited.setdefault(run, []).append(expected)
        try:
            yield expected
        finally:
            awaited = self._awaited[run]
            awaited.remove(expected)
            if not awaited:
                del self._awaited[run]

    def awaits(self, run: UUID) -> bool:
        """Whether anybody here waits for this run."""
        return run in self._awaited

    def close(self) -> None:
        """This gateway goes: for all who wait, and whoever comes later, the time is over. Their runs go on."""
        self._closed = True
        for awaited in self._awaited.values():
            for expected in awaited:
                expected.tell(None)

    def look_now(self, run: UUID) -> None:
        """The run may have ended before anybody began to wait."""
        self._told.put_nowait(run)

    async def listen(self) -> None:
        """Pass on what Redis announces, until cancelled."""
        async for run in self._announcements.finished():
            if run in self._awaited:
                self._told.put_nowait(run)

    async def fetch(self) -> None:
        """Fetch the futures of runs that were announced, several at once, until cancelled."""
        while True:
            runs = {await self._told.get()}
            while not self._told.empty() and len(runs) < AT_ONCE:
                runs.add(self._told.get_nowait())
            try:
                for run, outcome in (await self._streams.results(list(runs))).items():
                    self._resolve(run, outcome)
            except TryLater as fault:
                log.warning("result_not_read", reason=str(fault))

    async def heal(self) -> None:
        """Ask Postgres for all that are awaited, every second, until cancelled."""
        while True:
            await self._clock.sleep(HEAL_EVERY.total_seconds())
            await self.look()

    async def look(self) -> None:
        """Ask Postgres once."""
        awaited = list(self._awaited)
        for start in range(0, len(awaited), AT_ONCE):
            await self._look_for(awaited[start : start + AT_ONCE])

    async def _look_for(self, runs: Sequence[UUID]) -> None:
        try:
            for finished in await self._inbox.outcomes(runs):
                self._resolve(finished.run, finished.outcome)
            if still_open := [run for run in runs if run in self._awaited]:
                for question in await self._inbox.questions(still_open):
                    self._ask(question)
        except TryLater as fault:
            log.warning("outcomes_not_read", reason=str(fault))

    def look_again(self, run: UUID) -> None:
        """The run's end may be stored and not told anywhere yet: look in Postgres now."""
        task = asyncio.get_running_loop().create_task(self._look_for([run]))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    def _ask(self, question: Question) -> None:
        for expected in self._awaited.get(question.run, ()):
            expected.ask(question)

    def _resolve(self, run: UUID, outcome: Outcome) -> None:
        for expected in self._awaited.get(run, ()):
            expected.tell(outcome)
