"""The cheap model server, over real connections inside this process."""

import asyncio
import time
from collections.abc import AsyncIterator

import httpx2
import pytest

from bench.http_line import HttpLine
from bench.model_server import serve
from bench.watching import ModelNotes
from bench.wire import CHUNKS, Mark, message_text, reply_text

TOKEN = "0123456789ab"


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """Where it is."""
    told: asyncio.Queue[str] = asyncio.Queue()
    serving = asyncio.create_task(serve(0, told.put_nowait))
    yield await asyncio.wait_for(told.get(), 5)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


def asked(first: int, later: int) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": message_text(Mark(TOKEN, first, later))}], "stream": True}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_it_speaks_http_to_a_client_of_the_sdks(url: str, path: str) -> None:
    """The product talks to it through an ordinary client, several times over one connection."""
    async with httpx2.AsyncClient(base_url=url) as client:
        for _ in range(3):
            response = await client.post(path, json=asked(0, 0))
            assert response.status_code == 200
            assert TOKEN in response.text
            assert response.text.count("piece ") == CHUNKS - 2


async def test_the_pieces_are_spread_over_the_latency_and_a_repetition_has_its_own(url: str) -> None:
    """The second try of a run whose worker died must not take as long as the first."""
    notes = ModelNotes(url)
    for _ in range(2):
        async with HttpLine(url) as line:
            assert [kind async for kind, _ in line.stream("/v1/messages", asked(200, 0))]
    slow, quick = await notes.take()
    assert slow.token == quick.token == TOKEN
    assert len(slow.sent) == len(quick.sent) == CHUNKS
    assert 0.18 < (slow.sent[-1] - slow.at) / 1e9 < 2
    assert (slow.sent[-1] - slow.sent[0]) / 1e9 > 0.15
    assert quick.sent[-1] - quick.at < 50_000_000
    assert await notes.take() == []


async def test_a_receipt_is_on_the_clocks_that_everybody_has(url: str) -> None:
    """Times of three processes are subtracted from each other."""
    before, wall = time.monotonic_ns(), time.time_ns()
    async with httpx2.AsyncClient(base_url=url) as client:
        await client.post("/v1/messages", json=asked(0, 0))
    (note,) = await ModelNotes(url).take()
    assert before < note.at < time.monotonic_ns()
    assert wall < note.wall < time.time_ns()


async def test_what_is_not_of_this_bench_is_refused(url: str) -> None:
    """Else a wrong address would look like a wrong answer."""
    async with httpx2.AsyncClient(base_url=url) as client:
        assert (await client.post("/v1/messages", json={"messages": []})).status_code == 400
        assert (await client.get("/elsewhere")).status_code == 400


async def test_who_is_never_asked_for_is_told_after_the_wait(url: str) -> None:
    """A conversation that nobody takes over must end the bench with a sentence."""
    with pytest.raises(RuntimeError, match="1 of 1 messages did not reach the model"):
        await ModelNotes(url).until_heard([TOKEN], within=0.05)


async def test_a_reply_is_what_the_load_expects(url: str) -> None:
    """Both ends know it without having spoken to each other."""
    async with httpx2.AsyncClient(base_url=url) as client:
        text = (await client.post("/v1/chat/completions", json=asked(0, 0))).text
    assert reply_text(TOKEN).split(":")[0] in text
