"""What a seed means: who asks what and when, and which fault comes when. Nothing here looks at a clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

KINDS = ("echo", "talk", "slow", "retry", "act", "act", "file")
SENDERS = 16
ASKS_PER_SECOND = 2.5
SECONDS_PER_FAULT = 3.0
WIPING = ("flushall", "kill redis")
OTHERS = (
    "kill worker",
    "kill gateway",
    "kill scheduler",
    "pause worker < fence",
    "pause worker > fence",
    "term worker",
    "kill postgres",
    "wake twice",
)
FAULTS = (*WIPING, *OTHERS)


@dataclass(frozen=True, slots=True)
class Ask:
    """A message: ``at`` is in seconds from the beginning, ``streamed`` asks for events instead of one reply."""

    key: str
    at: float
    kind: str
    sender: str
    streamed: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault and its time, in seconds from the beginning."""

    at: float
    fault: str


def plan_asks(seed: int, seconds: float) -> Sequence[Ask]:
    """Some asks for each second, from few senders, so that they wait for each other."""
    random, at = Random(f"asks {seed}"), 0.0
    asks: list[Ask] = []
    while (at := at + random.expovariate(ASKS_PER_SECOND)) < seconds:
        sender = f"s{random.randrange(SENDERS)}"
        asks.append(Ask(str(len(asks) + 1), at, random.choice(KINDS), sender, random.random() < 0.6))
    return asks


def plan_faults(seed: int, seconds: float) -> Sequence[Planned]:
    """Every kind comes as often as every other, in any order.

    What empties Redis comes in the first half alone: only streams that are younger can be compared piece by piece.
    """
    random = Random(f"faults {seed}")
    count = max(len(FAULTS), int(seconds / SECONDS_PER_FAULT))
    chosen = list((FAULTS * (count // len(FAULTS) + 1))[:count])
    random.shuffle(chosen)
    wiping = [fault for fault in chosen if fault in WIPING]
    others = [fault for fault in chosen if fault not in WIPING]
    step = seconds / (count + 1)
    places = [index for index in range(count) if index < count / 2]
    wiped = set(random.sample(places, len(wiping)))
    return [
        Planned(step * (index + random.uniform(0.7, 1.3)), (wiping if index in wiped else others).pop())
        for index in range(count)
    ]
