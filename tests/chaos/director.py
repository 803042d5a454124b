"""Lets the faults come, one scene after another: runs are brought to boundaries and held there, then the fault comes.

What is lacking in the table says which scenes are still to be played; their order is the seed's.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import psycopg

from tests.chaos.boundaries import GATED, InLine, Notes, Whereabouts
from tests.chaos.faults import AT_ONE_WORKER, FAULTS, MORE, MOVES_NOBODY, SLOW_TO_COME, STOPS_ALL, WORKER, Scene
from tests.chaos.gates import AIMED, ALL, TAKE, Signals
from tests.chaos.load import Load
from tests.chaos.noted_ports import LISTENS_FOR
from tests.chaos.plan import BESIDE_MANY, FEW, HEADS, HELD_OF_FEW, MANY, MANY_FROM, WIPING, Cast, plan_faults, plan_few
from tests.chaos.plants import Aim
from tests.chaos.reading import lines_of_now
from tests.chaos.table import ENOUGH, Table
from tests.chaos.town import Town, wait_for

GATHERS_FOR = {FEW: 2.6, MANY: 3.4}
"""Seconds after which a fault comes, also when not all stand where they shall."""

COMES_WITHIN = 14.0
REMEMBERED = 60.0
LOOKS_EVERY = 0.06
NOT_MORE_THAN = 24
"""Runs in flight up to which a scene with many may begin."""

QUIET_WITHIN, CALM_WITHIN = 1.0, 5.0
"""Seconds for which a scene with few waits for quiet before one with many is played in its place: while a fault lasts,
and when none does."""

IN_ONE_SCENE = 3
"""Faults that may come to the same runs, one after another."""

LONGER = 0.2
"""The part of its time by which a matrix may be longer to fill its table."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A fault, when it came by the monotonic clock, and whether there was anything to be hit."""

    fault: str
    at: float
    came: bool


class _Deck:
    """Faults in the order of the seed; ``next`` is the one that is due, and stays until it is taken."""

    def __init__(self, order: Iterator[str], size: int) -> None:
        self._order = order
        self._size = size
        self._next: str | None = None

    def next(self, table: Table, bucket: str, enough: int) -> str | None:
        """The next that lacks something in this bucket."""
        for _ in range(2 * self._size):
            name = self._next or next(self._order)
            if _lacking(table, name, bucket, enough):
                self._next = name
                return name
            self._next = None
        return None

    def take(self) -> None:
        """It is played."""
        self._next = None


def _lacking(table: Table, fault: str, bucket: str, enough: int) -> Mapping[str, int]:
    """Redis is emptied no more than it must be: only streams that are younger can be compared piece by piece."""
    return table.lacks(fault, bucket, min(enough, ENOUGH) if fault in WIPING else enough)


@dataclass
class Director:
    """``table`` is counted as it goes, to know what is lacking; the one that is printed is counted in the end.

    ``told``: when it was first noted that the end of a run was told. Whoever empties Redis has that forgotten.
    """

    town: Town
    load: Load
    signals: Signals
    notes: Notes
    table: Table
    seed: int
    mono: float
    _tasks: list[tuple[str, Scene, "asyncio.Task[bool]"]] = field(default_factory=list)
    told: dict[str, float] = field(default_factory=dict)
    _lines: Sequence[InLine] = ()

    async def conduct(self, seconds: float) -> Sequence[Hit]:
        """The whole matrix, and scenes beyond it until the time is over; a little longer when something is lacking."""
        began = time.monotonic()
        random, cast = Random(f"scenes {self.seed}"), Cast(self.seed)
        faults = self.table.faults
        decks = {load: _Deck(plan_faults(self.seed, load, faults), len(faults)) for load in (FEW, MANY)}
        restless_since = began
        while (passed := time.monotonic() - began) < seconds * (1 + LONGER):
            if passed >= seconds and self.table.least >= ENOUGH:
                break
            enough = ENOUGH if self.table.least < ENOUGH else self.table.least + ENOUGH
            due = {load: decks[load].next(self.table, load, enough) for load in (FEW, MANY)}
            bucket = await self._fitting(due, time.monotonic() - restless_since)
            fault = due[bucket] if bucket else None
            if fault is None or bucket is None:
                await asyncio.sleep(LOOKS_EVERY)
                continue
            decks[bucket].take()
            lacking = _lacking(self.table, fault, bucket, enough)
            held = plan_few(lacking, random) if bucket == FEW else {"claiming": HEADS, **lacking}
            await self._play([fault, *self._also(fault, bucket, held, enough, random)], bucket, held, random, cast)
            restless_since = time.monotonic()
        self.load.target = 0
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

            async def gather(aim: Aim = aim) -> None:
                self.signals.hold(aim.held, ALL)
                await self._until_there(dict.fromkeys(aim.held, 4), 1.1)

            await wait_for(lambda: len(self.town.up(WORKER)) > 1, 4.0)  # nothing is learnt of a town without any
            await gather()
            await self._let_come(aim.fault, Scene(self.town, self.load, self.signals, random, gather))
            self.signals.let_all_pass()
            await asyncio.sleep(1.0)
        return await self._ended()

    async def _fitting(self, due: Mapping[str, str | None], restless: float) -> str | None:
        """For which of the two it is time now."""
        if any(name in STOPS_ALL and not task.done() for name, _, task in self._tasks):
            return None
        ready = {name for name in due.values() if name not in AT_ONE_WORKER or len(self.town.up(WORKER)) > 1}
        in_flight = (await self._standing()).total()
        if due[FEW] in ready and due[FEW] and in_flight + HELD_OF_FEW + (due[FEW] in SLOW_TO_COME) < MANY_FROM:
            return FEW
        if due[MANY] in ready and due[MANY] and in_flight <= NOT_MORE_THAN:
            patience = QUIET_WITHIN if any(not task.done() for _, _, task in self._tasks) else CALM_WITHIN
            return MANY if not due[FEW] or restless > patience else None
        return None

    def _also(self, fault: str, bucket: str, held: Mapping[str, int], enough: int, random: Random) -> Sequence[str]:
        """More faults that lack the same, if this one leaves the runs where they are."""
        lacking = [
            name
            for name in sorted(MOVES_NOBODY - {fault})
            if set(_lacking(self.table, name, bucket, enough))
            >= {boundary for boundary in held if boundary != "claiming"}
        ]
        return random.sample(lacking, min(len(lacking), IN_ONE_SCENE - 1)) if fault in MOVES_NOBODY else ()

    async def _play(
        self, faults: Sequence[str], bucket: str, held: Mapping[str, int], random: Random, cast: Cast
    ) -> None:
        """One scene: set it, let the faults come, and open the gates."""
        fault = faults[0]

        async def gather() -> None:
            for ask in asks:
                self.load.ask(ask)
            self.load.target = BESIDE_MANY if bucket == MANY else 0
            await self._until_there(held, GATHERS_FOR[bucket])
            self.load.target = 0

        asks = cast.asks_for(held)
        victim = self.town.pick(WORKER, random) if fault in AT_ONE_WORKER else None
        self.signals.hold(GATED, AIMED)
        if victim is not None:
            for peer in self.town.up(WORKER):
                if peer is not victim:
                    self.signals.tell(peer.popen.pid, f"close {ALL} {TAKE}")
            await asyncio.sleep(LISTENS_FOR.total_seconds() + LOOKS_EVERY)
        try:
            if fault not in SLOW_TO_COME:
                await gather()
            for name in faults:
                scene = Scene(self.town, self.load, self.signals, random, gather, victim, long=bucket == MANY)
                await self._let_come(name, scene)
        finally:
            self.signals.let_all_pass()

    async def _let_come(self, name: str, scene: Scene) -> None:
        """One fault, until it has come."""
        task = asyncio.create_task({**FAULTS, **MORE}[name](scene))
        self._tasks.append((name, scene, task))
        moment = asyncio.create_task(scene.moment.wait())
        try:
            await asyncio.wait({task, moment}, timeout=COMES_WITHIN, return_when=asyncio.FIRST_COMPLETED)
        finally:
            moment.cancel()
        if scene.moment_at:
            self.table.add(name, self._whereabouts(self._lines).at(scene.moment_at))

    async def _until_there(self, held: Mapping[str, int], seconds: float) -> None:
        """Wait until so many stand at each, some time at most."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            standing = await self._standing()
            if all(standing[boundary] >= count for boundary, count in held.items()):
                return
            await asyncio.sleep(LOOKS_EVERY)

    async def _standing(self) -> Counter[str]:
        """How many runs stand where now."""
        with contextlib.suppress(psycopg.OperationalError):
            self._lines = await asyncio.to_thread(lines_of_now, self.town.stack.database_url, self.mono)
        for line in self._lines:
            if line.told < float("inf"):
                self.told.setdefault(line.run, line.told)
        return Counter(self._whereabouts(self._lines).at(time.monotonic()).values())

    def _whereabouts(self, lines: Sequence[InLine]) -> Whereabouts:
        since = time.monotonic() - REMEMBERED
        recent = [note for note in self.notes.refresh() if note.at > since]
        return Whereabouts(lines, recent, self.town.deaths)

    async def _ended(self) -> Sequence[Hit]:
        hits = []
        for name, scene, task in self._tasks:
            came = await task
            hits.append(Hit(name, scene.moment_at, came and scene.moment_at > 0))
        return hits
