"""What happened outside, counted there."""

from collections.abc import Iterator

from tests.chaos.history import History
from tests.chaos.violation import Violation


def acted_at_most_once(history: History) -> Iterator[Violation]:
    """No key was acted out twice, whoever died, slept or woke up."""
    for key, count in history.acts.items():
        if count > 1:
            yield Violation(key, f"was acted out {count} times")


def acts_told_truly(history: History) -> Iterator[Violation]:
    """What is stored as done has happened, and no run is done while an act of it is merely intended."""
    runs = {run.id: run for run in history.runs}
    for effect in history.effects:
        run = runs.get(effect.run)
        if run is None:
            yield Violation(effect.run, f"{effect.tool} belongs to no run")
        elif effect.tool == "exec" and effect.state == "done" and effect.succeeded and not history.acts.get(run.key):
            yield Violation(effect.run, f"exec is said to be done, but key {run.key} was never acted out")
        elif run.state == "done" and effect.state == "intended":
            yield Violation(effect.run, f"is done, but its {effect.tool} is merely intended")
