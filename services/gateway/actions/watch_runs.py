"""One eye on all runs that are followed in this process: no stream asks by itself whether more is stored."""

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import structlog

from shared.errors import TryLater
from shared.ports.bus import Announcements
from shared.ports.clock import Clock
from shared.ports.history import Transcripts

log = structlog.get_logger(__name__)

LOOK_AGAIN = timedelta(seconds=1)
ROUSED_AFTER = timedelta(seconds=14)
AT_ONCE = 500


class Watched:
    """A run as one follower sees it. ``nudge`` is set when there may be something to read, or to say."""

    __slots__ = ("_clock", "_silent", "doubtful", "nudge", "run", "spoke_at", "woken_at")

    def __init__(self, run: UUID, nudge: asyncio.Event, clock: Clock) -> None:
        self._clock = clock
        self._silent = False
        self.run = run
        self.nudge = nudge
        self.woken_at = self.spoke_at = clock.monotonic()
        self.doubtful = True
        """What was read last may not be all there is: it wants to look again after a second, whatever is stored."""

    def speaks(self) -> None:
        """Its follower has said something to its client."""
        self.spoke_at = self._clock.monotonic()

    def wakes(self) -> bool:
        """Its follower looks now; true when it was silent for so long that what is stored may be more."""
        self.woken_at = self._clock.monotonic()
        self.nudge.clear()
        was_silent, self._silent = self._silent, False
        return was_silent

    def rouse(self, *, silent: bool = True) -> None:
        """Have it look."""
        self._silent = self._silent or silent
        self.nudge.set()


class RunWatch:
    """All followers of this process. ``watch`` must run for as long as anybody follows."""

    def __init__(self, announcements: Announcements, transcripts: Transcripts, clock: Clock) -> None:
        self._announcements = announcements
        self._transcripts = transcripts
        self._clock = clock
        self._followers: dict[UUID, set[Watched]] = {}
        self._known: dict[UUID, str] = {}

    @contextlib.contextmanager
    def follow(self, run: UUID) -> Iterator[Watched]:
        """A follower of this run, nudged by what is announced, and by what was stored and not announced."""
        with self._announcements.follow(run) as nudge:
            watched = Watched(run, nudge, self._clock)
            followers = self._followers.setdefault(run, set())
            followers.add(watched)
            try:
                yield watched
            finally:
                followers.discard(watched)
                if not followers:
                    del self._followers[run]
                    self._known.pop(run, None)

    def follows(self, run: UUID) -> bool:
        """Whether anybody here follows this run."""
        return run in self._followers

    def rouse_all(self) -> None:
        """Everybody has a moment of silence now."""
        for followers in self._followers.values():
            for watched in followers:
                watched.rouse()

    async def watch(self) -> None:
        """Look once a second, until cancelled."""
        while True:
            await self._clock.sleep(LOOK_AGAIN.total_seconds())
            await self.look()

    async def look(self) -> None:
        """Rouse who has been silent for a second and has more to read than was known, and who is silent for long."""
        now = self._clock.monotonic()
        silent: list[UUID] = []
        for run, followers in self._followers.items():
            quiet = False
            for watched in followers:
                if now - watched.woken_at < 0.9 * LOOK_AGAIN.total_seconds():
                    continue
                quiet = True
                if watched.doubtful:
                    watched.rouse()
                elif now - watched.spoke_at >= ROUSED_AFTER.total_seconds():
                    watched.spoke_at = now
                    watched.rouse(silent=False)
            if quiet:
                silent.append(run)
        for begin in range(0, len(silent), AT_ONCE):
            await self._look_for(silent[begin : begin + AT_ONCE])

    async def _look_for(self, runs: list[UUID]) -> None:
        try:
            moved = await self._transcripts.moved({run: self._known.get(run, "") for run in runs})
        except TryLater as fault:
            log.warning("runs_not_looked_for", reason=str(fault))
            return
        for run, stands in moved.items():
            if (followers := self._followers.get(run)) is not None:
                self._known[run] = stands
                for watched in followers:
                    watched.rouse()
