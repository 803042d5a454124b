"""The road of wake-ups."""

from collections.abc import Iterator

from tests.chaos.history import History
from tests.chaos.violation import Violation


def inbound_drained(history: History) -> Iterator[Violation]:
    """When all is quiet, nothing is left on ``lucyd:inbound``."""
    for entry in history.inbound:
        yield Violation(entry, "is still on lucyd:inbound, and nobody takes it off")
