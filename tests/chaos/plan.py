"""What a seed means: who asks what in which order, and which fault comes after which. Nothing here looks at a clock."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

KINDS = ("echo", "talk", "slow", "retry", "act", "act", "file", "file", "pair")
SENDERS = 20
FEW, MANY = "few", "many"
MANY_FROM = 8
"""Runs in flight from which a fault counts as one among many."""

IN_FLIGHT = {FEW: 6, MANY: 26}
"""How many the clients keep in flight."""

WIPING = ("flushall", "kill redis")
OTHERS = (
    "kill worker",
    "kill gateway",
    "kill scheduler",
    "pause worker < fence",
    "pause worker > fence",
    "term worker",
    "late write",
    "pause redis",
    "kill postgres",
    "cut in commit",
    "wake twice",
    "clock jump",
    "clock jump (faketime)",
    "loop blocked 2 s",
    "loop blocked 8 s",
    "gil held 3 s",
    "gil held > 6 s",
    "receiver fails",
)
FAULTS = (*WIPING, *OTHERS)
SHARE_OF_FEW = 0.7
WIPE_UNTIL = 0.6
"""The part of the time in which Redis is emptied: only streams that are younger can be compared piece by piece."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A message; ``streamed`` asks for events instead of one reply."""

    key: str
    kind: str
    sender: str
    streamed: bool


@dataclass(frozen=True, slots=True)
class Phase:
    """A time of the load, in seconds from the beginning."""

    begins: float
    ends: float
    load: str


def plan_asks(seed: int, kinds: Sequence[str] = KINDS, senders: int = SENDERS) -> Iterator[Ask]:
    """One ask after another, for ever, from few senders, so that some wait for each other."""
    random, number = Random(f"asks {seed}"), 0
    while True:
        number += 1
        sender = f"s{random.randrange(senders)}"
        yield Ask(str(number), random.choice(kinds), sender, random.random() < 0.6)


def plan_phases(seconds: float) -> Sequence[Phase]:
    """Quiet and busy times take turns; quiet ones are longer, since a fault meets fewer runs there."""
    rounds = max(1, round(seconds / 100))
    length, at = seconds / rounds, 0.0
    phases: list[Phase] = []
    for _ in range(rounds):
        phases.append(Phase(at, at + length * SHARE_OF_FEW, FEW))
        phases.append(Phase(at + length * SHARE_OF_FEW, at + length, MANY))
        at += length
    return phases


def plan_faults(seed: int, load: str, faults: Sequence[str] = FAULTS) -> Iterator[str]:
    """Each fault once, in any order, then each once more in another order, for ever."""
    random = Random(f"faults {seed} {load}")
    while True:
        deck = list(faults)
        random.shuffle(deck)
        yield from deck
