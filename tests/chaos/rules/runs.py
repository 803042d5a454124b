"""None lost, none silent, none answered twice."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.chaos.history import History
from tests.chaos.violation import Violation

WAITS_AT_MOST = 12.0
"""Seconds in line with nobody before it, and without any fault meanwhile."""

ENDED = frozenset({"done", "failed", "cancelled", "merged", "dead"})


def none_lost(history: History) -> Iterator[Violation]:
    """Every accepted run has ended, and every run that a client was told of is there."""
    for run in history.runs:
        if run.state not in ENDED:
            yield Violation(run.id, f"still {run.state} after {run.attempts} attempts")
    known = {run.id for run in history.runs}
    for answer in history.answers:
        if answer.run and answer.run not in known:
            yield Violation(answer.run, f"a client was told of it (ask {answer.key}), but there is no such row")


def none_failed(history: History) -> Iterator[Violation]:
    """Nothing of this load may fail: its model gets well again, and outages count against nobody."""
    for run in history.runs:
        if run.state in ENDED - {"done", "merged"}:
            yield Violation(run.id, f"{run.state}: {(run.outcome or {}).get('error')}")


def one_outcome(history: History) -> Iterator[Violation]:
    """A run that has ended has one outcome, and it was published."""
    for run in history.runs:
        if run.kind == "message" and run.state in ENDED:
            if run.outcome is None or run.terminal is None:
                yield Violation(run.id, f"{run.state} without an outcome")
            elif run.outcome.get("state") != run.state:
                yield Violation(run.id, f"{run.state}, but its outcome says {run.outcome.get('state')}")
            elif not run.published:
                yield Violation(run.id, "its end was never published")


def one_run_per_ask(history: History) -> Iterator[Violation]:
    """However often an ask was sent again, there is one run for it."""
    for key, count in Counter(run.key for run in history.runs if run.key).items():
        if count > 1:
            yield Violation(key, f"{count} runs for one idempotency key")


def answered_alike(history: History) -> Iterator[Violation]:
    """Every ask got an answer, and it is the one that is stored."""
    stored = {run.id: run.reply for run in history.runs}
    for answer in history.answers:
        if answer.fault:
            yield Violation(answer.key, f"never answered: {answer.fault}")
        elif answer.run in stored and answer.reply != stored[answer.run]:
            yield Violation(answer.key, f"answered {answer.reply[:60]!r}, stored {stored[answer.run][:60]!r}")
    runs = defaultdict(set)
    for answer in history.answers:
        runs[answer.key].add(answer.run)
    for key, seen in runs.items():
        if len(seen) > 1:
            yield Violation(key, f"one ask, {len(seen)} runs seen by its client")


def none_crashed(history: History) -> Iterator[Violation]:
    """No process ended, and no run broke, by a fault that we did not plant."""
    for line in history.crashes:
        yield Violation(line.partition(":")[0], line)


def none_owned(history: History) -> Iterator[Violation]:
    """Nobody holds what is idle."""
    for conversation in history.owned:
        yield Violation(conversation, "has an owner although nothing of it is open")


def none_waits_long(history: History) -> Iterator[Violation]:
    """A run that could be claimed is claimed soon, unless a fault came just then."""
    claimed: dict[str, float] = {}
    for note in history.notes:
        if note.mark == "claimed":
            claimed.setdefault(note.run, note.at)
    free: dict[str, float] = {}
    for run in sorted(history.runs, key=lambda run: run.ordinal):
        since = max(run.accepted_at + history.mono, free.get(run.conversation, 0.0))
        free[run.conversation] = max(since, (run.finished_at or run.accepted_at) + history.mono)
        if run.id in claimed:
            calm = [
                each.ended for each in history.disturbances if since <= each.ended and each.began <= claimed[run.id]
            ]
            waited = claimed[run.id] - max([since, *calm])
            if waited > WAITS_AT_MOST:
                yield Violation(run.id, f"waited {waited:.1f} s in line with nothing before it")
