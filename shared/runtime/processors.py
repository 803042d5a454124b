"""The processors that this process may use, and how busy they are."""

import os
from collections.abc import Collection, Iterator
from itertools import groupby
from pathlib import Path

STAT = Path("/proc/stat")
IDLE = slice(3, 5)
"""Of the figures of a processor: idle, and idle while something waits for a disk."""

SPENT = slice(0, 8)
"""What comes behind them, the time of guests, is in the others already."""


class Processors:
    """Those of the whole machine that the system lets this process run on; who else does so makes them busy, too."""

    def __init__(self, stat: Path = STAT, *, usable: Collection[int] | None = None) -> None:
        """``stat`` is the file in which the system counts how each processor has spent its time; ``usable`` are the
        numbers of those that count, ``None``: those that the system names."""
        self._stat = stat
        self._numbers = _usable() if usable is None else frozenset(usable)
        self._before: tuple[int, int] | None = None

    @property
    def count(self) -> int:
        """How many."""
        return len(self._numbers)

    @property
    def name(self) -> str:
        """Which, as ``0-3,6``."""
        runs = groupby(enumerate(sorted(self._numbers)), key=lambda pair: pair[1] - pair[0])
        ends = ([number for _, number in run] for _, run in runs)
        return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in ends)

    def busy(self) -> float | None:
        """The share of their time that was spent since the last call, from 0 to 1; ``None`` where nobody can tell."""
        before, now = self._before, self._read()
        self._before = now
        if before is None or now is None or now[1] <= before[1]:
            return None
        return min(1.0, max(0.0, (now[0] - before[0]) / (now[1] - before[1])))

    def _read(self) -> tuple[int, int] | None:
        """Time at work and time in all, since the machine was started."""
        try:
            lines = self._stat.read_text("ascii").splitlines()
            spent = list(_spent(lines, {f"cpu{number}" for number in self._numbers}))
        except (OSError, ValueError):
            return None
        idle = sum(sum(each[IDLE]) for each in spent)
        total = sum(sum(each) for each in spent)
        return total - idle, total


def _spent(lines: list[str], names: set[str]) -> Iterator[list[int]]:
    for line in lines:
        name, _, figures = line.partition(" ")
        if name in names:
            yield [int(figure) for figure in figures.split()[SPENT]]


def _usable() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))
