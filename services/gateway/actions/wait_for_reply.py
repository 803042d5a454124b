"""Wait for runs to end: told by Redis, and healed by one query a second for all that are awaited."""

import asyncio
import contextlib
from collections import defaultdict
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

    def __init__(self, future: asyncio.Future[Outcome], asked: asyncio.Future[Question]) -> None:
        self._future = future
        self._asked = asked

    async def outcome(self, *, within: timedelta) -> Outcome | Question | None:
        """The run's outcome, or what it asks its person, or ``None`` when neither came in time (it goes on).

        Raises ``TryLater``.
        """
        futures: set[asyncio.Future[Any]] = {self._future, self._asked}
        await asyncio.wait(futures, timeout=within.total_seconds(), return_when=asyncio.FIRST_COMPLETED)
        if self._future.done():
            return self._future.result()
        return self._asked.result() if self._asked.done() else None

    async def end(self, *, within: timedelta) -> bool:
        """Wait for the end, whatever is asked meanwhile; false when it did not come in time. Raises ``TryLater``."""
        await asyncio.wait({self._future}, timeout=within.total_seconds())
        return self._future.done() and self._future.result() is not None


class WaitingRoom:
    """Everybody in this process who awaits a reply. No one holds a connection of their own."""

    def __init__(self, announcements: Announcements, streams: RunStreams, inbox: Inbox, clock: Clock) -> None:
        self._announcements = announcements
        self._streams = streams
        self._inbox = inbox
        self._clock = clock
        self._awaited: dict[UUID, set[asyncio.Future[Outcome]]] = defaultdict(set)
        self._asking: dict[UUID, set[asyncio.Future[Question]]] = defaultdict(set)
        self._told: asyncio.Queue[UUID] = asyncio.Queue()
        self._looking: set[asyncio.Task[None]] = set()
        self._closed = False

    @contextlib.contextmanager
    def expect(self, run: UUID) -> Iterator["Expected"]:
        """Begin to wait, before the run is accepted: its end can come quicker than the answer to accept.

        Raises ``TryLater`` when this gateway is being stopped; nothing was accepted then.
        """
        if self._closed:
            raise TryLater("this gateway is being stopped", after=1.0)
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        asked: asyncio.Future[Question] = asyncio.get_running_loop().create_future()
        self._awaited[run].add(future)
        self._asking[run].add(asked)
        try:
            yield Expected(future, asked)
        finally:
            self._asking[run].discard(asked)
            if not self._asking[run]:
                del self._asking[run]
            self._awaited[run].discard(future)
            if not self._awaited[run]:
                del self._awaited[run]

    async def close(self) -> None:
        """This gateway goes: everybody is told so, and that the run goes on. Raises ``TryLater`` in their waits."""
        self._closed = True
        for futures in self._awaited.values():
            for future in futures:
                if not future.done():
                    future.set_exception(TryLater("this gateway is being stopped; the run goes on", after=1.0))

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
        for future in self._asking.get(question.run, ()):
            if not future.done():
                future.set_result(question)

    def _resolve(self, run: UUID, outcome: Outcome) -> None:
        for future in self._awaited.get(run, ()):
            if not future.done():
                future.set_result(outcome)
