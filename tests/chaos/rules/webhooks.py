"""What goes out to receivers."""

from collections import Counter
from collections.abc import Iterator

from tests.chaos.history import History
from tests.chaos.violation import Violation


def webhooks_arrive(history: History) -> Iterator[Violation]:
    """The end of each run is posted: one webhook for a run, sent in the end, and come to the receiver."""
    count = Counter(run for run, _ in history.webhooks)
    for run, state in history.webhooks:
        if state != "sent":
            yield Violation(run, f"its webhook is {state}")
        elif not history.posted.get(run):
            yield Violation(run, "its webhook is said to be sent, but never came to the receiver")
        if count[run] > 1:
            yield Violation(run, f"has {count[run]} webhooks")
    for ended in history.runs:
        if ended.kind == "message" and ended.state == "done" and not count[ended.id]:
            yield Violation(ended.id, "has no webhook")
