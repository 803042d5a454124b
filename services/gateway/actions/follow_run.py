"""Follow a run: what was told so far, then what is told, each event once, until the end."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from uuid import UUID

from shared.errors import TryLater
from shared.messages.run_events import ACCEPTED_ID, RunEvent, id_order, terminal_type
from shared.ports.bus import Announcements, RunStreams
from shared.ports.runs import FinishedRun, Inbox

LOOK_AGAIN = timedelta(seconds=1)
BEGINNING = "0-0"


async def follow_run(
    run: UUID, *, after: str, streams: RunStreams, announcements: Announcements, inbox: Inbox
) -> AsyncIterator[RunEvent | None]:
    """Events after the id ``after`` (``0-0``: all), ending with the terminal one; ``None`` when a second was silent.

    When the stream is gone, or Redis is, the end comes from Postgres.
    """
    last = after
    with announcements.follow(run) as nudge:
        while True:
            nudge.clear()
            events = await _read(run, last, streams)
            for event in events:
                last = event.id
                yield event
                if event.terminal:
                    return
            if events:
                continue  # there may be more than one reading holds
            try:
                async with asyncio.timeout(LOOK_AGAIN.total_seconds()):
                    await nudge.wait()
            except TimeoutError:
                if (end := await _end(run, inbox)) is not None:
                    if id_order(end.id) > id_order(last):
                        yield end
                    return
                yield None


async def _read(run: UUID, last: str, streams: RunStreams) -> Sequence[RunEvent]:
    try:
        return await streams.read(run, after=last)
    except TryLater:
        return ()


async def _end(run: UUID, inbox: Inbox) -> RunEvent | None:
    """The terminal event out of Postgres, when the run has ended."""
    try:
        finished = await inbox.outcomes([run])
    except TryLater:
        return None
    return next((_terminal_event(end) for end in finished), None)


def _terminal_event(finished: FinishedRun) -> RunEvent:
    return RunEvent(finished.terminal, terminal_type(str(finished.outcome.get("state"))), finished.outcome)


def accepted_event(run: UUID, conversation: str) -> RunEvent:
    """What a client sees first, also when Redis is away."""
    return RunEvent(ACCEPTED_ID, "accepted", {"run_id": str(run), "conversation": conversation})
