"""Commands to all workers: what both implementations promise, and what a Redis adds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from shared.adapters.inmemory.control import InMemoryControl
from shared.adapters.redis.control import KEPT, RedisControl
from shared.errors import TryLater
from shared.ids import new_id
from shared.messages import routes
from shared.ports.control import Command, Control

HEARS_WITHIN = 20.0
ANYBODY = "Is anybody there?"


def command(conversation: str = "telegram:1", reason: str = "It was cancelled.") -> Command:
    return Command("cancel", new_id(), conversation, reason)


@pytest.fixture(params=["inmemory", "real"])
def control(request: pytest.FixtureRequest) -> Control:
    if request.param == "inmemory":
        return InMemoryControl()
    return RedisControl(request.getfixturevalue("redis_client"))


@contextlib.asynccontextmanager
async def hearing(control: Control) -> AsyncIterator[list[Command]]:
    """What is heard from now on."""
    heard: list[Command] = []
    begun = asyncio.Event()

    async def hear() -> None:
        async for each in control.hear():
            if each.reason == ANYBODY:
                begun.set()
            else:
                heard.append(each)

    task = asyncio.create_task(hear())
    async with asyncio.timeout(HEARS_WITHIN):
        while not begun.is_set():  # what is told before somebody hears is heard by nobody
            await control.tell(command(reason=ANYBODY))
            await asyncio.sleep(0.02)
    try:
        yield heard
    finally:
        while not task.done():  # asyncio.wait_for of Python 3.11, on which the client sends, may swallow a cancel
            task.cancel()
            await asyncio.wait({task}, timeout=0.2)


async def until(heard: list[Command], count: int) -> None:
    async with asyncio.timeout(HEARS_WITHIN):
        while len(heard) < count:
            await asyncio.sleep(0.01)


async def test_every_hearer_hears_every_command_in_order(control: Control) -> None:
    """Nobody but the worker that has the run in hand knows that it is meant, so all are told."""
    told = [command("telegram:1"), command("http:key:Ä", "A newer message took its place."), command(reason="")]
    async with hearing(control) as one, hearing(control) as other:
        for each in told:
            await control.tell(each)
        await until(one, 3)
        await until(other, 3)
    assert one == other == told


async def test_what_was_told_before_is_not_heard(control: Control) -> None:
    """It was the predecessors' business, and stands in Postgres."""
    await control.tell(command("earlier"))
    async with hearing(control) as heard:
        await control.tell(command("now"))
        await until(heard, 1)
    assert [each.conversation for each in heard] == ["now"]


async def test_telling_when_nobody_hears_is_no_fault(control: Control) -> None:
    """A run may be cancelled while all workers are being deployed."""
    await control.tell(command())


async def test_an_entry_of_newer_code_is_passed_over(redis_client: redis.asyncio.Redis) -> None:
    """Old and new code run side by side; what a worker does not understand must not stop its listening."""
    control = RedisControl(redis_client)
    unknown: list[dict[Any, Any]] = [
        {"type": "reload"},
        {"type": "cancel"},
        {"type": "cancel", "run": "x", "conversation": "y"},
    ]
    async with hearing(control) as heard:
        for fields in unknown:
            await redis_client.xadd(routes.CONTROL, fields)
        await control.tell(command("known"))
        await until(heard, 1)
    assert [each.conversation for each in heard] == ["known"]


async def test_a_redis_that_was_emptied_is_heard_again(redis_client: redis.asyncio.Redis) -> None:
    """Cancels must stay quick after a wipe."""
    control = RedisControl(redis_client)
    await control.tell(command("before"))
    async with hearing(control) as heard:
        await redis_client.flushall()
        await control.tell(command("after"))
        await until(heard, 1)
    assert [each.conversation for each in heard] == ["after"]


async def test_the_stream_is_capped(redis_client: redis.asyncio.Redis) -> None:
    """It is told for the moment; nobody reads it up."""
    control = RedisControl(redis_client)
    for _ in range(KEPT + 300):
        await control.tell(command())
    assert await redis_client.xlen(routes.CONTROL) <= KEPT + 200  # trimmed by whole nodes


async def test_a_redis_that_is_away_is_told_so() -> None:
    """The caller goes on; the sweep of the workers finds the same in Postgres."""
    client = redis.asyncio.Redis(host="127.0.0.1", port=1, socket_connect_timeout=0.2)
    with pytest.raises(TryLater):
        await RedisControl(client).tell(command())
    await client.aclose()
