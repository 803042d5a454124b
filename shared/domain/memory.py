"""What is remembered, as it is found again."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that holds of an entity; ``confidence`` is from 0 to 1."""

    entity: str
    attribute: str
    value: str
    confidence: float = 1.0


@dataclass(frozen=True, slots=True)
class Episode:
    """What a conversation was about."""

    at: datetime
    summary: str
    topics: Sequence[str] = ()
    decisions: Sequence[str] = ()
    emotional_tone: str = "neutral"


@dataclass(frozen=True, slots=True)
class Commitment:
    """What somebody has promised and not yet done."""

    id: int
    who: str
    what: str
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """Whole lines of a workspace file, from ``start_line`` to ``end_line``, both counted from 1 and both in it."""

    path: str
    start_line: int
    end_line: int
    text: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """What was found. Commitments are all that are open: a question rarely names what somebody has forgotten."""

    facts: Sequence[Fact]
    episodes: Sequence[Episode]
    passages: Sequence[Passage]
    commitments: Sequence[Commitment]
