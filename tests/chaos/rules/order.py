"""One line per conversation: its messages, its runs and its epochs."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tests.chaos.boundaries import Note
from tests.chaos.history import History, MessageRow
from tests.chaos.violation import Violation

SEEN_WITHIN = 1.5
"""Seconds after which it is known here at the latest that a process has ended."""

SOON_AFTER = 12.0
"""Seconds for which a pause or an outage may still have a worker counted as dead."""

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


def ordinals_whole(history: History) -> Iterator[Violation]:
    """The rows of a conversation are numbered 1, 2, 3, ... in the order of acceptance."""
    lines = defaultdict(list)
    for run in history.runs:
        lines[run.conversation].append(run.ordinal)
    for conversation, ordinals in lines.items():
        last = history.last_ordinals.get(conversation)
        if sorted(ordinals) != list(range(1, len(ordinals) + 1)) or last != len(ordinals):
            yield Violation(
                conversation, f"its {len(ordinals)} rows end at ordinal {max(ordinals)}, its last is {last}"
            )


def claims_explained(history: History) -> Iterator[Violation]:
    """A run is taken over only from a worker that is gone, counts as dead, or has let go of it."""
    holders: dict[str, Note] = {}
    for note in history.notes:
        if note.mark in {"left", "told"} and note.run in holders and holders[note.run].pid == note.pid:
            del holders[note.run]
        if note.mark != "claimed":
            continue
        before = holders.get(note.run)
        holders[note.run] = note
        if before is not None and before.pid != note.pid and not _was_lost(history, before, note.at):
            yield Violation(note.run, f"was claimed by {note.pid} although {before.pid} had it and was well")


def no_takeover_while_blocked(history: History) -> Iterator[Violation]:
    """A worker whose event loop stands still is not counted as dead."""
    for blocked in history.blocked:
        for fenced in history.fenced:
            if blocked.how != "sleep" or fenced.pid != blocked.pid:
                continue
            fault = history.disturbed_between(blocked.began - SOON_AFTER, blocked.ended, blocked.pid)
            if blocked.began <= fenced.at <= blocked.ended + 1 and not fault:
                yield Violation(
                    f"worker {blocked.pid}", f"was fenced {fenced.at - blocked.began:.1f} s into a blocked loop"
                )


def _was_lost(history: History, holder: Note, by: float) -> bool:
    if history.deaths.get(holder.pid, float("inf")) <= by + SEEN_WITHIN:
        return True
    return any(fenced.pid == holder.pid and fenced.at <= by + SEEN_WITHIN for fenced in history.fenced)
