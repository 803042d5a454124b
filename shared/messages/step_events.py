"""Events out of a stored step, and what is left of an event for somebody who has heard a part of it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shared.messages.run_events import STEP, TEXT_EVENTS, RunEvent, id_order


def events_of_step(epoch: int, stored: Sequence[Sequence[Any]], *, after: str) -> list[RunEvent]:
    """Events after the id ``after`` of one stored step, whose entries are [sequence, type, data] in their order."""
    events: list[RunEvent] = []
    before: str | None = None
    for sequence, type_, data in stored:
        event = RunEvent(f"{epoch}-{sequence}", type_, data, before)
        before = event.id
        if (rest := rest_of(event, after)) is not None:
            events.append(rest)
    return events


def rest_of(event: RunEvent, after: str) -> RunEvent | None:
    """What of ``event`` comes after the id ``after``: all, nothing, or the rest of its text.

    Raises ``ValueError`` for what is no event id.
    """
    heard, told = id_order(after), id_order(event.id)
    if told <= heard:
        return None
    if event.type not in TEXT_EVENTS:
        return event
    cut = heard[1] - _start_of(event)
    if heard[0] != told[0] or cut <= 0:
        return event
    return replace(event, data={**event.data, "text": event.data["text"][cut:]}, after=after)


def _start_of(event: RunEvent) -> int:
    """The sequence that the event's text begins after."""
    epoch, sequence = id_order(event.id)
    base = sequence - sequence % STEP
    if event.after is not None:
        before = id_order(event.after)
        if before[0] == epoch and before[1] >= base:
            return before[1]  # holds also where offsets have come to their largest
    return max(base, sequence - len(event.data["text"]))
