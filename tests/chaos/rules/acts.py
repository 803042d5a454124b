"""What happened outside, counted there."""

from collections import Counter
from collections.abc import Iterator

from tests.chaos.history import Act, History, RunRow
from tests.chaos.violation import Violation

AT_ONCE = 1.0
"""Seconds within which the result of an act must be on its way into the table."""


def acted_at_most_once(history: History) -> Iterator[Violation]:
    """No key was acted out twice, whoever died, slept or woke up."""
    for key, count in Counter(act.key for act in history.acts).items():
        if count > 1:
            yield Violation(key, f"was acted out {count} times")


def acts_told_truly(history: History) -> Iterator[Violation]:
    """What is stored as done has happened, and no run is done while an act of it is merely intended."""
    runs = {run.id: run for run in history.runs}
    acted = {act.key for act in history.acts}
    for effect in history.effects:
        run = runs.get(effect.run)
        if run is None:
            yield Violation(effect.run, f"{effect.tool} belongs to no run")
        elif effect.tool in {"exec", "block"} and effect.state == "done" and effect.succeeded and run.key not in acted:
            yield Violation(effect.run, f"{effect.tool} is said to be done, but key {run.key} was never acted out")
        elif run.state == "done" and effect.state == "intended":
            yield Violation(effect.run, f"is done, but its {effect.tool} is merely intended")


def doubts_explained(history: History) -> Iterator[Violation]:
    """An act is in doubt only if it was under way, or just over, when its process was lost."""
    runs = {run.id: run for run in history.runs}
    acts = {act.key: act for act in history.acts}
    for effect in history.effects:
        run = runs.get(effect.run)
        if effect.state == "in_doubt" and run is not None and effect.tool in {"exec", "block"}:
            act = acts.get(run.key)
            if (
                act is not None
                and act.ended is not None
                and not _lost_at_once(history, run, effect.tool, act, act.ended)
            ):
                yield Violation(effect.run, f"its {effect.tool} is in doubt, but had ended long before its process did")


def _lost_at_once(history: History, run: RunRow, tool: str, act: Act, ended: float) -> bool:
    """Whether who acted was lost, or was storing the result, within a second of the end of the act."""
    mine = [note for note in history.notes if note.run == run.id]
    began = [
        note for note in mine if note.mark == "acting" and note.detail.endswith(f" {tool}") and note.at <= act.began
    ]
    if not began:
        return True  # nobody knows whose it was
    pid = began[-1].pid
    until = ended + AT_ONCE
    if history.disturbed_between(ended - 0.5, until, pid) or history.deaths.get(pid, float("inf")) <= until:
        return True
    if any(fenced.pid == pid and fenced.at <= until for fenced in history.fenced):
        return True
    return any(
        note.pid == pid and note.mark in {"storing results", "left"} and ended - 0.5 <= note.at <= until
        for note in mine
    )


def repeated_under_one_key(history: History) -> Iterator[Violation]:
    """What is repeated after an interruption is repeated under the key that it had."""
    for key, keys in history.stamps.items():
        if len(set(keys)) > 1:
            yield Violation(key, f"was stamped under {len(set(keys))} keys: {sorted(set(keys))}")
