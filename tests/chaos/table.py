"""How often each fault met a run at each boundary, with few and with many runs in flight."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.boundaries import BOUNDARIES
from tests.chaos.plan import FEW, MANY, MANY_FROM

ENOUGH = 5

SHORT_NAMES = ("accepted", "claiming", "asking", "st.answer", "acting", "st.result", "finishing", "telling")


def bucket_of(in_flight: int) -> str:
    """Whether so many are few or many."""
    return MANY if in_flight >= MANY_FROM else FEW


@dataclass
class Table:
    """Counts."""

    faults: Sequence[str]
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    hits: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, fault: str, standing: Mapping[str, str]) -> None:
        """A fault came while each of these runs stood at its boundary."""
        bucket = bucket_of(len(standing))
        self.hits[fault, bucket] += 1
        for boundary in standing.values():
            self.counts[fault, boundary, bucket] += 1

    def lacks(self, fault: str, bucket: str, enough: int = ENOUGH) -> Mapping[str, int]:
        """What each boundary lacks yet."""
        lacking = {boundary: enough - self.counts[fault, boundary, bucket] for boundary in BOUNDARIES}
        return {boundary: count for boundary, count in lacking.items() if count > 0}

    @property
    def least(self) -> int:
        """The smallest cell."""
        return min(self._cells().values(), default=0)

    def low(self) -> Sequence[str]:
        """The cells that have too few, named."""
        few: dict[str, list[str]] = {}
        for (fault, boundary, bucket), count in self._cells().items():
            if count < ENOUGH:
                few.setdefault(f"{fault}, {bucket}", []).append(f"{boundary} {count}")
        return [f"{row}: {', '.join(cells)}" for row, cells in few.items()]

    def lines(self) -> Iterator[str]:
        """As text: each cell is few/many."""
        yield f"{'fault':<22} {'faults':>7} " + " ".join(f"{name:>9}" for name in SHORT_NAMES)
        for fault in self.faults:
            cells = " ".join(
                f"{f'{self.counts[fault, boundary, FEW]}/{self.counts[fault, boundary, MANY]}':>9}"
                for boundary in BOUNDARIES
            )
            yield f"{fault:<22} {f'{self.hits[fault, FEW]}/{self.hits[fault, MANY]}':>7} {cells}"

    def _cells(self) -> Mapping[tuple[str, str, str], int]:
        return {
            (fault, boundary, bucket): self.counts[fault, boundary, bucket]
            for fault in self.faults
            for boundary in BOUNDARIES
            for bucket in (FEW, MANY)
        }
