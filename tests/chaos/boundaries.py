"""At which boundary of its steps each run stands, told from what the workers noted as they went."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

BOUNDARIES = (
    "accepted",
    "claiming",
    "asking",
    "storing answer",
    "acting",
    "storing results",
    "finishing",
    "telling",
)
"""In line with nobody at it; its claim, its model call, the commit of its answer, its tools, the commit of their
results and the commit of its end under way; ended, but not yet told."""

GATED = ("claiming", "asking", "storing answer", "storing results", "finishing", "telling")
"""Where a worker can hold runs: most last milliseconds. In tools they wait for a file, see ``scripts``."""

_AIMED = re.compile(r"([a-z_]+)-\d+$")

FREE = frozenset({"unclaimed", "left"})
FALLBACK = frozenset(BOUNDARIES) - {"telling"}


@dataclass(frozen=True, slots=True)
class Note:
    """What a worker wrote down before it went on; ``at`` is the machine's monotonic clock, in seconds."""

    at: float
    pid: int
    mark: str
    conversation: str
    run: str = ""
    detail: str = ""


@dataclass
class Notes:
    """Reads the files of all workers, as far as they have come."""

    folder: Path
    notes: list[Note] = field(default_factory=list)
    _read: dict[Path, int] = field(default_factory=dict)

    def refresh(self) -> Sequence[Note]:
        """All notes there are, in the order of their times."""
        for file in self.folder.glob("*.notes"):
            with file.open("rb") as lines:
                lines.seek(self._read.get(file, 0))
                text = lines.read()
            whole = text.rfind(b"\n") + 1
            self._read[file] = self._read.get(file, 0) + whole
            self.notes += [_note(int(file.stem), line) for line in text[:whole].decode().splitlines()]
        self.notes.sort(key=lambda note: note.at)
        return self.notes


def _note(pid: int, line: str) -> Note:
    at, mark, conversation, run, detail = line.split("\t")
    return Note(float(at), pid, mark, conversation, run, detail)


@dataclass(frozen=True, slots=True)
class InLine:
    """A run as its row tells it; times on the monotonic clock.

    ``ended`` is infinite while it is open, ``told`` while nobody has noted that its end was told.
    """

    run: str
    conversation: str
    ordinal: int
    accepted: float
    ended: float
    told: float = float("inf")


def aimed_at(conversation: str) -> str:
    """The boundary at which runs of this conversation are to be held, by the name of who writes in it; mostly none."""
    found = _AIMED.search(conversation)
    boundary = found[1].replace("_", " ") if found else ""
    return boundary if boundary in BOUNDARIES else ""


class Whereabouts:
    """Tells where all runs stood at any time. ``deaths`` maps a process to when it ended."""

    def __init__(self, runs: Iterable[InLine], notes: Sequence[Note], deaths: Mapping[int, float]) -> None:
        self._deaths = deaths
        self._lines: dict[str, list[InLine]] = defaultdict(list)
        for run in sorted(runs, key=lambda run: run.ordinal):
            self._lines[run.conversation].append(run)
        self._of_run: dict[str, list[Note]] = defaultdict(list)
        self._of_line: dict[str, list[Note]] = defaultdict(list)
        for note in notes:
            if note.run:
                self._of_run[note.run].append(note)
            if note.mark in {"claiming", "claimed", "unclaimed"}:
                self._of_line[note.conversation].append(note)

    def at(self, time: float) -> Mapping[str, str]:
        """The boundary of each run in flight: accepted, and not yet told."""
        found: dict[str, str] = {}
        for runs in self._lines.values():
            head = True
            for run in runs:
                if run.accepted > time:
                    continue
                boundary = self._boundary(run, time, head=head)
                if boundary is not None:
                    found[run.run] = boundary
                head = head and run.ended <= time
        return found

    def _boundary(self, run: InLine, time: float, *, head: bool) -> str | None:
        last = _last(self._of_run[run.run], time)
        if run.told <= time or (last is not None and last.mark == "told"):
            return None
        if run.ended <= time or (last is not None and last.mark == "telling"):
            return "telling" if last is not None else None
        if last is not None and last.mark not in FREE and not self._dead(last.pid, time):
            return "asking" if last.mark == "claimed" else "acting" if last.mark == "acted" else last.mark
        return "claiming" if head and self._is_being_claimed(run.conversation, time) else "accepted"

    def _is_being_claimed(self, conversation: str, time: float) -> bool:
        latest: dict[int, Note] = {}
        notes = self._of_line[conversation]
        for note in notes[: bisect_right(notes, time, key=lambda note: note.at)][-12:]:
            latest[note.pid] = note
        return any(note.mark == "claiming" and not self._dead(note.pid, time) for note in latest.values())

    def _dead(self, pid: int, time: float) -> bool:
        return self._deaths.get(pid, float("inf")) <= time


def _last(notes: Sequence[Note], time: float) -> Note | None:
    place = bisect_right(notes, time, key=lambda note: note.at)
    return notes[place - 1] if place else None
