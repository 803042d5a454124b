"""Run events as server-sent events (WHATWG HTML, section 9.2); the event id resumes the stream."""

from collections.abc import AsyncIterator
from datetime import timedelta

import orjson
from starlette.responses import StreamingResponse

from shared.messages.run_events import RunEvent
from shared.ports.clock import Clock

KEEP_ALIVE = timedelta(seconds=15)


def event_stream(events: AsyncIterator[RunEvent | None], clock: Clock) -> StreamingResponse:
    """A response that sends each event as it comes, and a comment when nothing came for 15 seconds."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_frames(events, clock), media_type="text/event-stream", headers=headers)


async def _frames(events: AsyncIterator[RunEvent | None], clock: Clock) -> AsyncIterator[bytes]:
    sent_at = clock.monotonic()
    async for event in events:
        if event is not None:
            yield frame(event)
        elif clock.monotonic() - sent_at < KEEP_ALIVE.total_seconds():
            continue
        else:
            yield b": keep-alive\n\n"
        sent_at = clock.monotonic()


def frame(event: RunEvent) -> bytes:
    """One event; JSON has no line breaks of its own, so one data line holds it."""
    data = orjson.dumps(event.data, default=str)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event.id.encode(), event.type.encode(), data)
