"""A body is bounded in size and in time before it is understood."""

import asyncio
import threading
from typing import Any

import orjson
import pytest
from starlette.requests import Request
from starlette.types import Message

from services.gateway.edge.bodies import LARGE, MOST_VALUES, Bodies, Room, TooSlow, beside, read_json
from shared.errors import BadInput, TryLater


def request_of(*pieces: bytes, more: bool = False, length: int | None = None) -> Request:
    """A request whose body comes in pieces; with ``more`` its end never comes. ``length`` is what it says of it."""
    messages: list[Message] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    if not more:
        messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> Message:
        if messages:
            return messages.pop(0)
        await asyncio.Event().wait()
        raise AssertionError("never")

    headers = [] if length is None else [(b"content-length", str(length).encode())]
    return Request({"type": "http", "headers": headers}, receive)


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


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
@pytest.mark.parametrize("depth", [65, 500, 1200, 90_000])
async def test_what_is_nested_too_deeply_is_refused(opening: bytes, depth: int) -> None:
    """Whatever walks through it afterwards would run out of its own depth."""
    closing = b"]" if opening == b"[" else b"}"
    body = opening * depth + b"1" + closing * depth
    with pytest.raises(BadInput, match="the body is nested too deeply"):
        await read_json(request_of(body), at_most=10_000_000)


async def test_what_is_wide_is_not_deep() -> None:
    """Brackets beside each other, and in text, are no levels."""
    whole: dict[str, Any] = {"a": [[]] * 1000, "b": "[" * 1000, "c": "deep"}
    for _ in range(61):
        whole = {"a": whole}
    assert await read_json(request_of(orjson.dumps(whole)), at_most=100_000) == whole


@pytest.mark.parametrize("value", [b"{}", b"[]", b"1", b'""', b'{"a":1}', b'"\\"",1', b'"\\\\",1', b'{"\\ud800":[]}'])
async def test_more_values_than_anybody_means_are_refused_before_they_are_read(value: bytes) -> None:
    """Three bytes of a body become a hundred of memory: a few large ones would fill what the machine has."""
    pieces = [value] * MOST_VALUES
    with pytest.raises(BadInput, match=f"the body holds more than {MOST_VALUES} values"):
        await read_json(request_of(b'{"a": [' + b",".join(pieces) + b"]}"), at_most=10_000_000)
    few = pieces[: MOST_VALUES // 3]
    assert "a" in await read_json(request_of(b'{"a": [' + b",".join(few) + b"]}"), at_most=10_000_000)


@pytest.mark.parametrize("text", [",[{" * 200_000, '",' * 200_000, '\\",{' * 200_000, "\\" * 400_000])
async def test_a_long_text_is_one_value(text: str) -> None:
    """People paste tables and programs, with as many commas, brackets and quotes as they like."""
    whole = {"message": text, "more": [1, 2]}
    assert await read_json(request_of(orjson.dumps(whole)), at_most=10_000_000) == whole


async def test_as_many_tokens_as_are_embedded_at_once_are_taken() -> None:
    """Clients send the tokens of many texts as numbers."""
    whole = {"input": [[7] * 1_000] * 300}
    assert await read_json(request_of(orjson.dumps(whole)), at_most=10_000_000) == whole


async def test_a_body_is_utf_8_or_none() -> None:
    """What is counted in another encoding is not what is read. A mark at the beginning is passed over."""
    assert await read_json(request_of(b"\xef\xbb\xbf" + b'{"a": 1}'), at_most=100) == {"a": 1}
    for encoding in ("utf-16", "utf-16-le", "utf-32"):
        with pytest.raises(BadInput, match="invalid JSON body"):
            await read_json(request_of('{"a": 1}'.encode(encoding)), at_most=100)


async def test_bodies_share_a_room_while_they_come() -> None:
    """A few hundred slow senders would fill the memory of everybody, whatever each of them sends."""
    room, size = Room(1_000_000), 400_000
    slow = (request_of(b" " * each, more=True) for each in (size, size, 75_000))
    waiting = [asyncio.create_task(read_json(each, at_most=size, room=room)) for each in slow]
    await asyncio.sleep(0)
    with pytest.raises(TryLater):
        await read_json(request_of(b" " * 100_000, b"{}"), at_most=size, room=room)
    small = b" " * 60_000  # who only says something finds a place also then, and who may turn out to be large does not
    assert await read_json(request_of(small, b"{}", length=60_002), at_most=size, room=room) == {}
    for length in (None, 100_000):
        with pytest.raises(TryLater):
            await read_json(request_of(b" " * 100, more=True, length=length), at_most=size, room=room)

    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    assert await read_json(request_of(b" " * size, b"{}"), at_most=2 * size, room=room) == {}


async def test_the_room_is_full_also_for_small_ones() -> None:
    """Many small bodies are as much as a few large ones."""
    room = Room(1_000_000)
    waiting = [
        asyncio.create_task(read_json(request_of(b" " * 60_000, more=True, length=60_000), at_most=size, room=room))
        for size in [60_000] * 16
    ]
    await asyncio.sleep(0)
    with pytest.raises(TryLater):
        await read_json(request_of(b" " * 60_000, length=60_000), at_most=60_000, room=room)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


@pytest.mark.parametrize(("size", "is_beside"), [(LARGE, False), (LARGE + 1, True)])
async def test_a_large_body_is_worked_on_beside(size: int, is_beside: bool) -> None:
    """Everybody waits for what is done at the door; for small ones the way to a thread would take longer."""
    where = await beside(size, threading.get_ident)
    assert (where != threading.get_ident()) == is_beside
