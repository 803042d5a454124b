"""What a worker tells of its work in its monitor hash, and what its colleagues on the same machine read there."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

TAKES = "yes"


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """``machine`` names the machine and the processors of it that the worker may use; ``taking`` is ``yes``, or ``no``
    and why; ``in_line`` is how many wait in it, ``waits`` for how long the first of them does."""

    machine: str
    taking: str
    conversations: int
    slots: int
    in_line: int
    waits: timedelta

    @property
    def takes(self) -> bool:
        """Whether it takes what comes."""
        return self.taking == TAKES

    def told(self) -> dict[str, str]:
        """Fields of the hash."""
        return {
            "machine": self.machine,
            "taking": self.taking,
            "conversations": str(self.conversations),
            "slots": str(self.slots),
            "in_line": str(self.in_line),
            "in_line_ms": str(round(self.waits.total_seconds() * 1000)),
        }


FIELDS = ("machine", "taking", "conversations", "slots", "in_line", "in_line_ms")


def figures_of(fields: Mapping[str, str | None]) -> WorkerFigures | None:
    """What was told; ``None`` when it is not all there: the worker is gone, or is of older code."""
    numbers = [fields.get(name) or "" for name in FIELDS[2:]]
    machine, taking = fields.get("machine"), fields.get("taking")
    if not machine or not taking or not all(number.isascii() and number.isdecimal() for number in numbers):
        return None
    conversations, slots, in_line, milliseconds = map(int, numbers)
    return WorkerFigures(machine, taking, conversations, slots, in_line, timedelta(milliseconds=milliseconds))
