"""Everybody has the replies to their own commands, whatever becomes of the line and of the others."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from shared.adapters.redis.connection import open_redis
from shared.adapters.redis.shared_line import SharedLine
from shared.errors import TryLater

SOON = timedelta(seconds=2)


@pytest.fixture
async def line(redis_url: str) -> AsyncIterator[SharedLine]:
    """A line over a client of its own."""
    async with open_redis(redis_url) as client:
        opened = SharedLine(client)
        yield opened
        await opened.close()


async def test_many_ask_at_once_and_each_has_its_own_replies(line: SharedLine) -> None:
    """Also when some of them are refused, and some have gone meanwhile."""

    async def ask(number: int) -> None:
        wrong = ("INCR", "text") if number % 3 == 0 else ("ECHO", "x")
        echo, refused, again = await line.ask([("ECHO", number), wrong, ("ECHO", -number)], SOON)
        assert (echo, again) == (str(number), str(-number))
        assert isinstance(refused, Exception) == (number % 3 == 0)

    await line.ask([("SET", "text", "no number")], SOON)
    asking = [asyncio.create_task(ask(number)) for number in range(200)]
    await asyncio.sleep(0)
    for task in asking[::7]:
        task.cancel()
    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    assert [outcome for outcome in outcomes if outcome is not None and not isinstance(outcome, BaseException)] == []
    assert sum(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes) == len(asking[::7])
    assert [type(outcome) for outcome in outcomes if isinstance(outcome, Exception)] == []
    assert await line.ask([("ECHO", "still in order")], SOON) == ["still in order"]


async def test_a_server_that_hangs_is_named_in_time_and_asked_again_later(
    line: SharedLine, redis_client: Redis
) -> None:
    """Late replies must not be taken for those of the next one."""
    assert await line.ask([("ECHO", "one")], SOON) == ["one"]
    await redis_client.client_pause(1800)
    began = time.monotonic()
    for number in range(2):
        with pytest.raises(TryLater):
            await line.ask([("ECHO", f"lost {number}")], timedelta(milliseconds=200))
    assert time.monotonic() - began < 1.6
    assert await line.ask([("ECHO", "two")], SOON) == ["two"]


async def test_a_broken_line_is_taken_up_anew(line: SharedLine, redis_client: Redis) -> None:
    """Whoever asks next notices nothing."""
    assert await line.ask([("ECHO", "one")], SOON) == ["one"]
    for number in range(5):
        await redis_client.client_kill_filter(_type="normal", skipme=True)
        replies = await asyncio.gather(*(line.ask([("ECHO", f"{number} {each}")], SOON) for each in range(5)))
        assert replies == [[f"{number} {each}"] for each in range(5)]


async def test_a_server_that_is_away_is_named() -> None:
    """And nobody waits for longer than they said."""
    async with open_redis("redis://127.0.0.1:1/0") as client:
        line = SharedLine(client)
        with pytest.raises(TryLater):
            await line.ask([("PING",)], SOON)
        await line.close()


async def test_who_asks_nothing_hears_nothing_and_takes_no_reply_of_others(line: SharedLine) -> None:
    """A list that turned out to be empty."""
    first, nothing, last = await asyncio.gather(
        line.ask([("ECHO", "one")], SOON), line.ask([], SOON), line.ask([("ECHO", "two")], SOON)
    )
    assert (first, nothing, last) == (["one"], [], ["two"])


async def test_who_waits_when_the_line_is_closed_hears_so_and_opens_none(line: SharedLine, redis_client: Redis) -> None:
    """Nobody would close that one any more."""
    await line.ask([("PING",)], SOON)
    waiting = asyncio.create_task(line.ask([("BLPOP", "nothing", "1")], SOON))
    await asyncio.sleep(0.05)
    await line.close()
    with pytest.raises(TryLater):
        await waiting
    with pytest.raises(TryLater):
        await line.ask([("PING",)], SOON)
    assert not [client for client in await redis_client.client_list() if client["cmd"] == "blpop"]
