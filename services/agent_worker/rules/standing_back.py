"""Whether a worker is surplus: the processors are full, and enough older workers on them have room.

More workers than processors do not do more when those are full: their interpreters share the same caches, and each run
costs all of them more.
"""

from collections.abc import Sequence
from datetime import timedelta

from shared.messages.worker_figures import WorkerFigures

FULL = 0.9
CALM = 0.8
"""Between the two it stays as it was, so that a machine at the edge does not change each second."""

ROOM = 7 / 8
"""Of the slots of those that go on: beyond it they are asked to take no more than they do."""

LONGEST_WAIT = timedelta(seconds=1)
"""In the line of one of them: a sweep takes it over then, this worker's among them, and so may this worker at once."""

FINDS = 8
"""So many looks in a row that have found what was left: nobody else stands for it."""

TAKES_FOR = timedelta(seconds=10)
"""At least, after that."""


def is_full(busy: float | None, *, was_full: bool) -> bool:
    """Whether the processors count as full, by the share of the last second that they were at work."""
    return busy is not None and busy >= (CALM if was_full else FULL)


def is_surplus(machine: str, processors: int, older: Sequence[WorkerFigures]) -> bool:
    """Whether the older workers are enough for these processors, all of them being full.

    Age decides between workers: of two that are surplus the younger one counts the older one and never the other way
    round, and the oldest, as many as there are processors, are never surplus.
    """
    others = [each for each in older if each.machine == machine and each.takes]
    if len(others) < processors:
        return False
    in_hand, slots = sum(each.conversations for each in others), sum(each.slots for each in others)
    return in_hand <= slots * ROOM and all(each.waits <= LONGEST_WAIT for each in others)


def boot_of(boot_id: str) -> str:
    """What names the boot of the machine in a worker's identity; containers differ in the rest."""
    return boot_id.partition("/")[0]
