"""A stream of events as an ASGI server sees it."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message

from services.gateway.actions.take_leave import Departure
from services.gateway.edge.event_stream import EventStream, Seats
from shared.adapters.system_clock import SystemClock
from shared.domain.api_key import OPERATOR, ApiKey
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

    stream = EventStream(
        _nothing_happens(), clock=SystemClock(), departure=Departure(), seat=seats.take(ApiKey(OPERATOR))
    )
    with pytest.raises(TryLater):
        seats.take(ApiKey(OPERATOR))
    async with asyncio.timeout(20):
        await stream({"type": "http", "method": "HEAD"}, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert not sent[-1]["more_body"]
    seats.take(ApiKey(OPERATOR))


def test_a_named_key_has_half_of_the_streams_and_the_operator_all_that_are_free() -> None:
    """Whoever opens as many as there may be must not shut out everybody else."""
    seats, phone, other = Seats(5), ApiKey("phone"), ApiKey("other")
    taken = [seats.take(phone) for _ in range(2)]
    with pytest.raises(TryLater, match="this key"):
        seats.take(phone)
    seats.take(other)
    taken.pop().leave()
    seats.take(phone)
    for _ in range(2):
        seats.take(ApiKey(OPERATOR))
    with pytest.raises(TryLater, match="too many streams are open here"):
        seats.take(other)
