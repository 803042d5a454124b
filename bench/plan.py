"""What is measured, and how much work it is: a number of runs and not a time, so that it is always the same."""

from collections.abc import Sequence
from dataclasses import dataclass

WORKERS = (1, 2, 4)
SESSIONS = (1, 8, 32, 200)
LATENCIES_MS = (200, 0)
MOST_SESSIONS = 200
HALF_LOAD_SESSIONS = 60
"""Enough for any half load to find one that is free, and few enough for each to say five messages."""

SLOW_MS = 200

_RUNS = {
    (1, 200): 25, (8, 200): 240, (32, 200): 800, (200, 200): 2400,
    (1, 0): 600, (8, 0): 1600, (32, 0): 2000, (200, 0): 2400,
}  # fmt: skip
"""Runs of a cell by sessions and milliseconds of the model: five to ten seconds each on two cores."""


@dataclass(frozen=True, slots=True)
class Cell:
    """So many runs by so many sessions, with so many workers and a model that takes so long."""

    workers: int
    sessions: int
    latency_ms: int
    runs: int

    @property
    def name(self) -> str:
        """As in the names of the raw files."""
        return f"w{self.workers}-s{self.sessions}-{self.latency_ms}ms"


@dataclass(frozen=True, slots=True)
class Plan:
    """One bench. ``headline`` is the number of workers that the figures without one are of.

    ``budget``: seconds after which no repeat is begun that is not likely to end within them.
    """

    cells: Sequence[Cell]
    headline: int
    repeats: int
    warm_up: int
    half_load: int
    streamed: int
    in_hand: int
    open_conversations: int
    floor: int
    budget: float

    @property
    def workers(self) -> Sequence[int]:
        """How many workers, in the order of the cells."""
        return tuple(dict.fromkeys(cell.workers for cell in self.cells))


def full_plan() -> Plan:
    """Everything, three times."""
    cells = [
        Cell(workers, sessions, latency, _RUNS[sessions, latency])
        for workers in WORKERS
        for latency in LATENCIES_MS
        for sessions in SESSIONS
    ]
    return Plan(
        cells,
        headline=2,
        repeats=3,
        warm_up=100,
        half_load=600,
        streamed=160,
        in_hand=32,
        open_conversations=120,
        floor=2000,
        budget=840,
    )


def quick_plan() -> Plan:
    """Each figure once and with little work: whether it all runs, not how fast."""
    work = [(1, 0, 60), (32, SLOW_MS, 160), (MOST_SESSIONS, SLOW_MS, 400), (MOST_SESSIONS, 0, 400)]
    return Plan(
        [Cell(2, sessions, latency, runs) for sessions, latency, runs in work],
        headline=2,
        repeats=1,
        warm_up=40,
        half_load=150,
        streamed=40,
        in_hand=16,
        open_conversations=60,
        floor=500,
        budget=85,
    )
