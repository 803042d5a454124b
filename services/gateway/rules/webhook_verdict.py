"""What becomes of a webhook after a try."""

from dataclasses import dataclass
from datetime import timedelta

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(hours=1)
TRIED_FOR = timedelta(hours=24)
JITTER = 0.2
"""How far a pause may be off its length, so that many webhooks of one outage do not come back at once."""

GONE = 410


@dataclass(frozen=True, slots=True)
class Receipt:
    """What came of a try. ``status`` ``None``: there was no answer, and ``fault`` says why, in a few words.

    ``wait``: how long the receiver asked to be left alone.
    """

    status: int | None
    fault: str = ""
    wait: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Sent:
    """The receiver has it."""

    status: int


@dataclass(frozen=True, slots=True)
class Again:
    """To be tried once more, ``after`` so long."""

    after: timedelta
    reason: str


@dataclass(frozen=True, slots=True)
class Dead:
    """Not tried any more."""

    reason: str


def verdict(receipt: Receipt, *, attempts: int, tried_for: timedelta, chance: float) -> Sent | Again | Dead:
    """The verdict after try number ``attempts`` (from 1); ``chance`` is uniform in 0..1.

    Pauses double from 5 s to 1 h, off by a fifth; when the next try would come more than 24 h after the first could
    have, there is none. A receiver that is gone (410) is believed at once.
    """
    if receipt.status is not None and 200 <= receipt.status < 300:
        return Sent(receipt.status)
    reason = receipt.fault or f"the receiver answered {receipt.status}"
    if receipt.status == GONE:
        return Dead("the receiver answered 410: it wants no more of this")
    doubled = FIRST_PAUSE * 2 ** min(attempts - 1, 30)
    pause = min(doubled, LONGEST_PAUSE) * (1 - JITTER + 2 * JITTER * chance)
    pause = max(pause, min(receipt.wait, LONGEST_PAUSE))
    if tried_for + pause > TRIED_FOR:
        return Dead(f"{reason}; tried {attempts} times")
    return Again(pause, reason)
