"""Lets the faults come: in the order of the seed, and when runs stand at the boundaries that the table lacks."""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import psycopg

from tests.chaos.boundaries import GATED, InLine, Notes, Whereabouts
from tests.chaos.faults import FAULTS, MORE, SLOW_TO_COME, TAKES_A_WORKER, Scene
from tests.chaos.gates import Signals
from tests.chaos.load import Load
from tests.chaos.plan import FEW, IN_FLIGHT, MANY, MANY_FROM, WIPE_UNTIL, WIPING, Phase, plan_faults, plan_phases
from tests.chaos.plants import Aim
from tests.chaos.reading import lines_of_now
from tests.chaos.table import ENOUGH, Table
from tests.chaos.town import Town, wait_for

GATHERS_FOR = {FEW: 0.9, MANY: 1.1}
"""Seconds for which runs are gathered at boundaries before a fault comes."""

COMES_WITHIN = 14.0
SPARE = 1
"""How many more than enough are aimed at, since what is counted now is counted once more in the end."""

REMEMBERED = 60.0
BETWEEN = 0.15


@dataclass(frozen=True, slots=True)
class Hit:
    """A fault, when it came by the monotonic clock, and whether there was anything to be hit."""

    fault: str
    at: float
    came: bool


class _Turn:
    """Only one fault at a time holds runs at their boundaries."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self.taken = False

    async def take(self) -> None:
        """Wait for it."""
        await self._lock.acquire()
        self.taken = True

    def give_back(self) -> None:
        """Let the next one have it."""
        if self.taken:
            self.taken = False
            self._lock.release()


@dataclass
class Director:
    """``table`` is counted as it goes, to know what to aim at; the one that is printed is counted in the end."""

    town: Town
    load: Load
    signals: Signals
    notes: Notes
    table: Table
    seed: int
    mono: float
    _tasks: list[tuple[str, Scene, "asyncio.Task[bool]"]] = field(default_factory=list)
    _coming: list["asyncio.Task[None]"] = field(default_factory=list)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def conduct(self, seconds: float) -> Sequence[Hit]:
        """The whole matrix."""
        began = time.monotonic()
        decks = {load: plan_faults(self.seed, load, self.table.faults) for load in (FEW, MANY)}
        random = Random(f"victims {self.seed}")
        for phase in plan_phases(seconds):
            self.load.target = IN_FLIGHT[phase.load]
            await self._settle(phase, began)
            while (at := time.monotonic() - began) < phase.ends:
                name = self._next(decks[phase.load], phase.load, at / seconds)
                if name is None:
                    await asyncio.sleep(0.5)
                    continue
                lacking = self.table.lacks(name, phase.load, ENOUGH + SPARE)
                held = {boundary: count for boundary, count in lacking.items() if boundary in GATED}
                await self._let_come(name, held, phase.load, random)
                await asyncio.sleep(BETWEEN)
        return await self._ended()

    async def provoke(self, aims: Sequence[Aim], seconds: float, in_flight: int) -> Sequence[Hit]:
        """The same few faults again and again."""
        began, turn = time.monotonic(), 0
        random = Random(f"victims {self.seed}")
        self.load.target = in_flight
        await asyncio.sleep(2.0)
        while time.monotonic() - began < seconds:
            aim = aims[turn % len(aims)]
            turn += 1
            await self._let_come(aim.fault, dict.fromkeys(aim.held, 4), MANY, random)
            await asyncio.sleep(1.0)
        return await self._ended()

    def _next(self, deck: Iterator[str], bucket: str, passed: float) -> str | None:
        """The next of the deck that still lacks something; those that empty Redis first, while they may come."""
        lacking = [name for name in self.table.faults if self.table.lacks(name, bucket, ENOUGH + SPARE)]
        may = [name for name in lacking if name not in WIPING or passed < WIPE_UNTIL]
        if not may:
            may = [name for name in self.table.faults if name not in WIPING or passed < WIPE_UNTIL]
        urgent = [name for name in may if name in WIPING]
        for name in deck:
            if name in may or (urgent and name in WIPING):
                return name
            if not may:
                return None
        return None

    async def _settle(self, phase: Phase, began: float) -> None:
        """Wait until as many are in flight as this phase wants, a few seconds at most."""
        end = time.monotonic() + 12.0
        while time.monotonic() < min(end, began + phase.ends):
            if (self.load.open < MANY_FROM) if phase.load == FEW else (self.load.open >= MANY_FROM):
                return
            await asyncio.sleep(0.1)

    async def _let_come(self, name: str, held: Mapping[str, int], bucket: str, random: Random) -> None:
        """One fault, until it has come; one that is slow to come takes its turn when it does."""
        turn = _Turn(self._one_at_a_time)

        async def gather() -> None:
            await turn.take()
            await self._gather(held, GATHERS_FOR[bucket])

        scene = Scene(self.town, self.load, self.signals, random, gather)
        if name in TAKES_A_WORKER:
            await wait_for(lambda: len(self.town.up("agent_worker")) > 1, 4.0)
        if name not in SLOW_TO_COME:
            await gather()
        task = asyncio.create_task({**FAULTS, **MORE}[name](scene))
        self._tasks.append((name, scene, task))
        coming = asyncio.create_task(self._come(name, scene, task, turn))
        self._coming.append(coming)
        if name not in SLOW_TO_COME:
            await coming

    async def _come(self, name: str, scene: Scene, task: "asyncio.Task[bool]", turn: "_Turn") -> None:
        moment = asyncio.create_task(scene.moment.wait())
        try:
            await asyncio.wait({task, moment}, timeout=COMES_WITHIN, return_when=asyncio.FIRST_COMPLETED)
            lines = await self._lines() if scene.moment_at else ()
        finally:
            moment.cancel()
            if turn.taken:
                self.signals.let_all_pass()
            turn.give_back()
        if scene.moment_at:
            recent = [note for note in self.notes.refresh() if note.at > scene.moment_at - REMEMBERED]
            self.table.add(name, Whereabouts(lines, recent, self.town.deaths).at(scene.moment_at))

    async def _gather(self, held: Mapping[str, int], seconds: float) -> None:
        """Close these gates until so many stand at each, some time at most."""
        self.signals.hold(frozenset(held))
        end = time.monotonic() + seconds
        waits = set(held)
        while waits and time.monotonic() < end:
            await asyncio.sleep(0.02)
            for boundary in list(waits):
                if self.signals.standing[boundary] >= held[boundary]:
                    waits.discard(boundary)
                    self.signals.let_pass(boundary)

    async def _lines(self) -> Sequence[InLine]:
        with contextlib.suppress(psycopg.OperationalError):
            return await asyncio.to_thread(lines_of_now, self.town.stack.database_url, self.mono)
        return ()

    async def _ended(self) -> Sequence[Hit]:
        hits = []
        await asyncio.gather(*self._coming)
        for name, scene, task in self._tasks:
            came = await task
            hits.append(Hit(name, scene.moment_at, came and scene.moment_at > 0))
        return hits
