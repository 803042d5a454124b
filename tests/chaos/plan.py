"""What a seed means: who asks what in which order, and which fault comes after which. Nothing here looks at a clock."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tests.chaos.boundaries import BOUNDARIES

KINDS = ("echo", "talk", "slow", "retry", "retry", "act", "act", "file", "duo")
SENDERS = 20
FEW, MANY = "few", "many"
MANY_FROM = 12
"""Runs in flight from which a fault counts as one among many."""

HELD_OF_FEW = 10
"""Runs that a scene with few in flight holds: one may stray into it, and it still has few."""

HEADS = 2
"""Runs that are being claimed, for others to stand behind."""

BESIDE_MANY = 5
"""Clients that ask whatever they like while a scene with many in flight is set."""

WIPING = ("flushall", "kill redis")
OTHERS = (
    "kill worker",
    "kill gateway",
    "kill scheduler",
    "pause worker < fence",
    "pause worker > fence",
    "term worker",
    "pause redis",
    "kill postgres",
    "cut in commit",
    "wake twice",
    "clock jump",
    "loop blocked",
    "gil held",
    "receiver fails",
)
FAULTS = (*WIPING, *OTHERS)
EARLY_ROUNDS = 2
"""Rounds in which the faults that empty Redis come twice: only streams that are younger can be compared."""

ASKED_FOR: Mapping[str, Sequence[str]] = {
    "accepted": ("echo", "peek"),
    "claiming": ("echo", "peek"),
    "asking": ("muse",),
    "storing answer": ("peek", "file", "nip"),
    "acting": ("dwell",),
    "storing results": ("nip", "peek", "file"),
    "finishing": ("echo", "peek"),
    "telling": ("echo",),
}
"""Kinds of asks that pass a boundary soon."""

POOL = 24
"""Senders that there are for each boundary, so that conversations grow."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A message; ``streamed`` asks for events instead of one reply."""

    key: str
    kind: str
    sender: str
    streamed: bool


def plan_asks(seed: int, kinds: Sequence[str] = KINDS, senders: int = SENDERS) -> Iterator[Ask]:
    """One ask after another, for ever, from few senders, so that some wait for each other."""
    random, number = Random(f"asks {seed}"), 0
    while True:
        number += 1
        sender = f"s{random.randrange(senders)}"
        yield Ask(str(number), random.choice(kinds), sender, random.random() < 0.6)


def plan_faults(seed: int, load: str, faults: Sequence[str] = FAULTS) -> Iterator[str]:
    """Each fault once, in any order, then each once more in another order, for ever."""
    random, round_ = Random(f"faults {seed} {load}"), 0
    while True:
        deck = list(faults)
        random.shuffle(deck)
        yield from deck
        round_ += 1
        if round_ <= EARLY_ROUNDS:
            yield from (name for name in WIPING if name in faults)


def plan_few(lacking: Mapping[str, int], random: Random) -> Mapping[str, int]:
    """How many to hold where, so that they are few: what is lacking most, in an order by chance, accepted ones behind
    ones that are being claimed."""
    held: dict[str, int] = {}
    order = [boundary for boundary in BOUNDARIES if boundary not in {"accepted", "claiming"}]
    random.shuffle(order)
    if lacking.get("accepted"):
        held["accepted"] = lacking["accepted"]
        held["claiming"] = max(lacking.get("claiming", 0), min(lacking["accepted"], HEADS))
    else:
        order.append("claiming")
    order.sort(key=lambda boundary: -lacking.get(boundary, 0))
    for boundary in order:
        count = min(lacking.get(boundary, 0), HELD_OF_FEW - sum(held.values()))
        if count > 0:
            held[boundary] = count
    return held


class Cast:
    """Who is asked for a scene. A sender's name tells the boundary at which its runs are held (``aimed_at``)."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"cast {seed}")
        self._number = 8_000_000
        self._next = 0

    def asks_for(self, held: Mapping[str, int]) -> Sequence[Ask]:
        """Asks of distinct senders for each boundary; those that are to stand in line stand behind the claimed."""
        asks: list[Ask] = []
        for boundary, count in held.items():
            if boundary != "accepted":
                asks += [self._ask(boundary, self._sender(boundary)) for _ in range(count)]
        heads = [ask.sender for ask in asks if ask.sender.startswith("claiming")]
        behind = held.get("accepted", 0)
        return [*asks, *(self._ask("accepted", heads[number % len(heads)]) for number in range(behind) if heads)]

    def _sender(self, boundary: str) -> str:
        self._next += 1
        return f"{boundary.replace(' ', '_')}-{self._next % (POOL * len(BOUNDARIES))}"

    def _ask(self, boundary: str, sender: str) -> Ask:
        self._number += 1
        kind = self._random.choice(ASKED_FOR[boundary])
        return Ask(str(self._number), kind, sender, self._random.random() < 0.6)
