"""One line per conversation: its messages, its runs and its epochs."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tests.chaos.history import History, MessageRow
from tests.chaos.violation import Violation

MAY_FOLLOW = {
    ("user", "assistant"),
    ("assistant", "user"),
    ("assistant", "tool_results"),
    ("tool_results", "assistant"),
}


def history_linear(history: History) -> Iterator[Violation]:
    """Ordinals have no holes, roles take turns, the last word is the assistant's, runs come in order of acceptance."""
    ordinals = {run.id: run.ordinal for run in history.runs}
    for session, rows in _sessions(history).items():
        if [row.ordinal for row in rows] != list(range(1, len(rows) + 1)):
            yield Violation(session, "its ordinals are not 1, 2, 3, ...")
        live = [row for row in rows if not row.dropped]
        for before, after in pairwise(live):
            if (before.role, after.role) not in MAY_FOLLOW:
                yield Violation(session, f"{after.role} after {before.role} at {after.ordinal} (run {after.run})")
            if ordinals.get(before.run, 0) > ordinals.get(after.run, 0):
                yield Violation(session, f"at {after.ordinal} run {after.run} speaks after its successor")
        if live and live[-1].role != "assistant":
            yield Violation(session, f"ends with {live[-1].role}")


def asked_once(history: History) -> Iterator[Violation]:
    """The message of each run stands in the history once."""
    asked = Counter(row.run for row in history.messages if row.role == "user" and not row.dropped)
    for run in history.runs:
        if run.kind == "message" and run.state == "done" and asked[run.id] != 1:
            yield Violation(run.id, f"its message stands {asked[run.id]} times in the history")


def calls_answered(history: History) -> Iterator[Violation]:
    """No tool call without its result, no result without its call, no id of a call twice."""
    for session, rows in _sessions(history).items():
        live = [row for row in rows if not row.dropped]
        for before, after in pairwise([MessageRow(session, 0, "", "user"), *live, MessageRow(session, 0, "", "user")]):
            if Counter(before.calls) != Counter(after.results):
                yield Violation(session, f"calls {before.calls} got results {after.results} at {after.ordinal}")
    for call, count in Counter(call for row in history.messages for call in row.calls).items():
        if count > 1:
            yield Violation(call, f"the id of a tool call stands {count} times in the histories")


def epochs_monotonic(history: History) -> Iterator[Violation]:
    """A conversation's epoch never falls, and later runs have larger ones."""
    for conversation, seen in history.epochs.items():
        if any(before > after for before, after in pairwise(seen)):
            yield Violation(conversation, f"its epoch fell: {seen}")
    lines = defaultdict(list)
    for run in sorted(history.runs, key=lambda run: run.ordinal):
        if run.kind != "reset" and run.epoch:
            lines[run.conversation].append(run)
    for conversation, runs in lines.items():
        for before, after in pairwise(runs):
            if before.epoch >= after.epoch:
                yield Violation(conversation, f"run {after.ordinal} has epoch {after.epoch} after {before.epoch}")


def one_worker_per_epoch(history: History) -> Iterator[Violation]:
    """Two workers never had a conversation under the same epoch."""
    workers = defaultdict(set)
    for row in history.reservations:
        workers[row.conversation, row.epoch].add(row.worker)
    for (conversation, epoch), held in workers.items():
        if len(held) > 1:
            yield Violation(conversation, f"epoch {epoch} was had by {len(held)} workers")


def _sessions(history: History) -> dict[str, Sequence[MessageRow]]:
    sessions = defaultdict(list)
    for row in sorted(history.messages, key=lambda row: row.ordinal):
        sessions[row.session].append(row)
    return dict(sessions)
