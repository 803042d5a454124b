"""What a client sees of a run, and the ids that make it resumable.

An id is ``<epoch>-<sequence>``. The sequence is ``step * 2**32 + offset``; the offset counts the characters told so far
in that step (an event without text counts 1). ``accepted`` is ``0-1`` and the end is the largest of its epoch, so Redis
itself refuses whatever a stale attempt would add, and publishing again changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

EventType = Literal[
    "accepted", "attempt", "delta", "thinking", "tool_started", "tool_finished", "approval", "question", "in_doubt",
    "notice", "retry", "merged", "done", "failed", "cancelled",
]  # fmt: skip
TEXT_EVENTS: frozenset[str] = frozenset({"delta", "thinking"})
TERMINAL_EVENTS: frozenset[str] = frozenset({"merged", "done", "failed", "cancelled"})

STEP = 2**32
LAST = 2**64 - 1
ACCEPTED_ID = "0-1"
LONGEST_ID = 41


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One entry of ``lucyd:run:<id>:events``; ``id`` is also the SSE event id.

    ``after`` is the id of the event that the same attempt told before it (its first one: what a client keeps of earlier
    attempts). Whoever has not come that far has met a gap. ``None``: not known.
    """

    id: str
    type: EventType
    data: Mapping[str, Any]
    after: str | None = None

    @property
    def terminal(self) -> bool:
        """Nothing comes after this one."""
        return self.type in TERMINAL_EVENTS


def accepted_event(run: UUID, conversation: str) -> RunEvent:
    """What a client sees first of a run."""
    return RunEvent(ACCEPTED_ID, "accepted", {"run_id": str(run), "conversation": conversation})


def event_id(epoch: int, step: int, offset: int) -> str:
    """The id of an event of ``step`` after ``offset`` characters."""
    return f"{epoch}-{step * STEP + offset}"


def step_of(event: str) -> tuple[int, int]:
    """Epoch and step of an id; raises ``ValueError`` for what is no event id."""
    epoch, sequence = id_order(event)
    return epoch, sequence // STEP


def terminal_id(epoch: int) -> str:
    """The id of the end, as an attempt of this epoch tells it."""
    return f"{epoch}-{LAST}"


def id_order(event: str) -> tuple[int, int]:
    """Sort key of an id; raises ``ValueError`` for what is no event id."""
    epoch, _, sequence = event.partition("-")
    # Redis takes no larger numbers either, and Python refuses to read an int of thousands of digits.
    if len(event) > LONGEST_ID or not (event.isascii() and epoch.isdecimal() and sequence.isdecimal()):
        raise ValueError(f"not an event id: {event[:40]!r}")
    order = int(epoch), int(sequence)
    if max(order) > LAST:
        raise ValueError(f"not an event id: {event[:40]!r}")
    return order


def terminal_type(outcome: Mapping[str, Any]) -> EventType:
    """The event that tells an outcome; a run given up as ``dead`` is told as failed."""
    if "merged_into" in outcome:
        return "merged"
    match outcome.get("state"):
        case "done":
            return "done"
        case "cancelled":
            return "cancelled"
        case _:
            return "failed"
