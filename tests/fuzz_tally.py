"""How many cases a fuzz has had, of which operations, and how they were answered."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """``answered`` counts the statuses of each operation."""

    answered: dict[str, Counter[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, notes: Iterable[str]) -> "Tally":
        """From lines of an operation and a status with a tab between them."""
        tally = cls()
        for line in notes:
            operation, _, status = line.rstrip("\n").rpartition("\t")
            tally.answered.setdefault(operation, Counter())[int(status)] += 1
        return tally

    @property
    def cases(self) -> int:
        """Of all operations."""
        return self.statuses.total()

    @property
    def statuses(self) -> Counter[int]:
        """Of all operations."""
        return sum(self.answered.values(), Counter())

    def summary(self, seconds: float) -> str:
        """A line for each operation, and one for all."""
        width = max(map(len, self.answered), default=0)
        lines = [
            f"{name:<{width}}  {statuses.total():>6}  {statuses_told(statuses)}"
            for name, statuses in sorted(self.answered.items())
        ]
        whole = f"{len(self.answered)} operations, {self.cases} cases in {seconds:.0f} s; answered: "
        return "\n".join([*lines, whole + statuses_told(self.statuses)])


def statuses_told(statuses: Counter[int]) -> str:
    """As words: ``200 x 12, 404 x 1``."""
    return ", ".join(f"{status} x {count}" for status, count in sorted(statuses.items()))
