"""A body is bounded in size and in time before it is understood."""

import asyncio

import pytest
from starlette.requests import Request
from starlette.types import Message

from services.gateway.edge.bodies import Bodies, TooSlow, read_json


def request_of(*pieces: bytes, more: bool = False) -> Request:
    """A request whose body comes in pieces; with ``more`` its end never comes."""
    messages: list[Message] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    if not more:
        messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> Message:
        if messages:
            return messages.pop(0)
        await asyncio.Event().wait()
        raise AssertionError("never")

    return Request({"type": "http", "headers": []}, receive)


async def test_a_body_may_come_in_pieces() -> None:
    """As networks bring it."""
    assert await read_json(request_of(b'{"a"', b": 1}"), at_most=100, within=1) == {"a": 1}


async def test_a_body_that_trickles_is_given_up() -> None:
    """A byte now and then would hold a request for ever; the connection is of no use afterwards."""
    with pytest.raises(TooSlow) as raised:
        await read_json(request_of(b'{"message": "hel', more=True), at_most=100, within=0.05)
    refused = Bodies("Testbert").error(raised.value)
    assert (refused.status_code, refused.headers["connection"]) == (408, "close")


async def test_a_large_body_has_more_time() -> None:
    """Somebody on a slow line may send a long text."""
    began = asyncio.get_running_loop().time()
    with pytest.raises(TooSlow):
        await read_json(request_of(b" " * 32_768, b" " * 65_536, more=True), at_most=1 << 20, within=0.05)
    assert asyncio.get_running_loop().time() - began > 1.4
