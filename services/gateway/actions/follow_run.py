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
LAST_WORDS = timedelta(seconds=2)
LAST_WORDS_LOOK = timedelta(milliseconds=100)
BEGINNING = "0-0"


async def follow_run(
    run: UUID, *, after: str, streams: RunStreams, announcements: Announcements, inbox: Inbox
) -> AsyncIterator[RunEvent | None]:
    """Events after the id ``after`` (``0-0``: all), ending with the terminal one; ``None`` when a second was silent.

    When the stream is gone, or Redis is, the end comes from Postgres.
    """
    last = after
    end: RunEvent | None = None
    ended_at = 0.0
    loop = asyncio.get_running_loop()
    with announcements.follow(run) as nudge:
        if await _is_gone(run, streams):
            end = await _end(run, inbox)
        while end is None or not _is_over(loop.time() - ended_at):
            nudge.clear()
            events = await _read(run, last, streams)
            for event in events:
                last = event.id
                yield event
                if event.terminal:
                    return
            if events:
                continue  # there may be more than one reading holds
            if await _nudged(nudge, LAST_WORDS_LOOK if end is not None else LOOK_AGAIN):
                continue
            yield None
            if end is None and (end := await _end(run, inbox)) is not None and not await _is_gone(run, streams):
                # Its last words may still be on their way from the worker; the end must not overtake them.
                ended_at = loop.time()
    if end is not None and id_order(end.id) > id_order(last):
        yield end


def _is_over(since_the_end: float) -> bool:
    return since_the_end >= LAST_WORDS.total_seconds()


async def _nudged(nudge: asyncio.Event, within: timedelta) -> bool:
    try:
        async with asyncio.timeout(within.total_seconds()):
            return await nudge.wait()
    except TimeoutError:
        return False


async def _is_gone(run: UUID, streams: RunStreams) -> bool:
    """The stream has nothing at all: it is too old, Redis was emptied, or is away."""
    return not await _read(run, BEGINNING, streams, limit=1)


async def _read(run: UUID, last: str, streams: RunStreams, *, limit: int = 500) -> Sequence[RunEvent]:
    try:
        return await streams.read(run, after=last, limit=limit)
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
