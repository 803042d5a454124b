"""Redis is emptied with two hundred chats in flight: nobody notices but by a moment's delay."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import redis

from tests.e2e.proofs import CountingModel, answer, ask, check_histories, ends_told, percentile, rows
from tests.scripted_model_server import ScriptedModelServer
from tests.stack import Stack, async_client, model_toml, open_stack, read_events, wait_until

pytestmark = pytest.mark.alone

KEYS = [f"wiped-{number}" for number in range(200)]
STREAMED = frozenset(KEYS[::10])
SLOTS = 64
"""Of each of the two workers: 72 of the 200 still wait on a Redis stream when it is emptied."""


@pytest.fixture
def script() -> CountingModel:
    """One call each."""
    return CountingModel()


@pytest.fixture
def models(script: CountingModel) -> Iterator[ScriptedModelServer]:
    """A model that takes a second and a half."""
    with ScriptedModelServer(default=script, latency=1.5).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """Nothing runs yet."""
    toml = model_toml("anthropic", models.base_url("anthropic"), extra=f"\n[worker]\nslots = {SLOTS}\n")
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


async def test_two_hundred_chats_do_not_mind_an_emptied_redis(
    stack: Stack, script: CountingModel, models: ScriptedModelServer
) -> None:
    """FLUSHALL: 200 replies out of 200 model calls, and no run is taken from its worker."""
    gateway = stack.gateway()
    stack.workers(2)
    replies: dict[str, str] = {}
    took: list[float] = []

    async def chat(http: httpx2.AsyncClient, key: str) -> None:
        body = {"message": ask(key, "plain"), "sender": key}
        path = "/api/v1/chat/stream" if key in STREAMED else "/api/v1/chat"
        # So many at once may be too many for a moment; whoever is asked to come again does.
        while (response := await http.post(path, json=body, headers={"Idempotency-Key": key})).status_code == 503:
            await asyncio.sleep(float(response.headers["retry-after"]))
        assert response.status_code == 200, response.text
        if key in STREAMED:
            events = read_events(iter(response.text.splitlines()))
            assert [kind for _, kind, _ in events].count("done") == 1
            said = events[-1][2]["reply"]
        else:
            said = response.json()["reply"]
        assert key not in replies
        replies[key] = said
        took.append(time.monotonic() - emptied_at)

    def all_are_in() -> bool:
        accepted = rows(stack.database_url, "select count(*) from runs")
        return sum(models.calls.values()) >= 2 * SLOTS and accepted == [(200,)]

    async with (
        async_client(gateway, limits=httpx2.Limits(max_connections=220)) as http,
        asyncio.TaskGroup() as callers,
    ):
        emptied_at = time.monotonic()
        for key in KEYS:
            callers.create_task(chat(http, key))
        await asyncio.to_thread(wait_until, all_are_in, "all are accepted, and all slots taken")
        with redis.Redis.from_url(stack.redis_url) as client:
            waiting = client.xlen("lucyd:inbound")
            client.flushall()
        emptied_at = time.monotonic()
    assert replies == {key: answer(key) for key in KEYS}
    assert len(script.asked) == 200
    assert sum(models.calls.values()) == 200
    assert rows(stack.database_url, "select state, attempts, epoch, count(*) from runs group by 1, 2, 3") == [
        ("done", 1, 1, 200)
    ]
    assert rows(stack.database_url, "select state, count(*) from workers group by state") == [("alive", 2)]
    assert check_histories(stack.database_url) == 200
    runs = [run for (run,) in rows(stack.database_url, "select id::text from runs")]
    wait_until(lambda: set(ends_told(stack.redis_url, runs).values()) == {1}, "all ends are told again", within=20)
    measured = f"p50 {percentile(took, 0.5):.1f} s, last reply {max(took):.1f} s after"
    print(f"{waiting} wake-ups lost; {measured}")  # noqa: T201 - a figure of the report
