"""A stream of events as an ASGI server sees it."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message

from services.gateway.actions.take_leave import Departure
from services.gateway.edge.event_stream import EventStream, Seats
from shared.adapters.system_clock import SystemClock
from shared.errors import TryLater
from shared.messages.run_events import RunEvent


async def _nothing_happens() -> AsyncGenerator[RunEvent | None, None]:
    await asyncio.Event().wait()
    yield None


async def test_who_asks_for_the_head_of_a_stream_gets_it_and_holds_no_seat() -> None:
    """Else the connection waits for the end of the run, and tells nothing meanwhile."""
    seats, sent = Seats(1), list[Message]()

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    stream = EventStream(_nothing_happens(), clock=SystemClock(), departure=Departure(), seat=seats.take())
    with pytest.raises(TryLater):
        seats.take()
    async with asyncio.timeout(20):
        await stream({"type": "http", "method": "HEAD"}, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert not sent[-1]["more_body"]
    seats.take()
