"""A worker whose event loop stands still is late, not dead: nobody takes its conversations."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.proofs import CountingModel, acted, answer, ask, check_histories, rows
from tests.scripted_model_server import ScriptedModelServer
from tests.stack import Stack, async_client, model_toml, open_stack, wait_until

pytestmark = pytest.mark.alone

BLOCKED = 8.0
"""Seconds; a worker whose beat stood still for 6 would be fenced."""

KEYS = {"call": "plain", "act": "act"}


@pytest.fixture
def script() -> CountingModel:
    """A call that is answered while the loop stands still."""
    return CountingModel(hold={("plain", 0): 5.0})


@pytest.fixture
def models(script: CountingModel) -> Iterator[ScriptedModelServer]:
    """The model."""
    with ScriptedModelServer(default=script).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """Nothing runs yet."""
    toml = model_toml("anthropic", models.base_url("anthropic"))
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


async def test_a_blocked_event_loop_is_no_reason_for_a_takeover(stack: Stack, script: CountingModel) -> None:
    """Eight seconds of time.sleep in a tool, with another chat in hand and a peer that looks on."""
    gateway = stack.gateway()
    (blocked,) = stack.workers(module="tests.e2e.blockable_worker")
    async with async_client(gateway) as http:
        waiting = {
            key: asyncio.create_task(http.post("/api/v1/chat", json={"message": ask(key, kind), "sender": key}))
            for key, kind in KEYS.items()
        }

        def both_in_hand() -> bool:
            intended = rows(stack.database_url, "select count(*) from effects where state = 'intended'")
            return script.made(["call"], 0) == 1 and intended == [(1,)]

        await asyncio.to_thread(wait_until, both_in_hand, "both are in hand")
        (peer,) = await asyncio.to_thread(stack.workers, 1)
        asked = stack.workspace / "asked"
        standing = stack.workspace / "blocked"
        asked.write_text(f"{BLOCKED:g}")
        asked.rename(stack.workspace / "block")
        await asyncio.to_thread(wait_until, standing.exists, "the loop stands still")
        blocked_at = time.monotonic()
        assert (await http.post("/api/v1/chat", json={"message": ask("other", "quick"), "sender": "other"})).is_success
        assert standing.exists(), "the loop has stood still all this time"
        beside = time.monotonic() - blocked_at
        replies = {key: (await task).json() for key, task in waiting.items()}
        after = time.monotonic() - blocked_at
    assert after >= BLOCKED - 0.1
    assert not standing.exists()
    assert {key: body["reply"] for key, body in replies.items()} == {key: answer(key) for key in KEYS}
    assert all(body["notices"] == [] for body in replies.values())
    assert acted(stack.workspace) == {"act": 1}
    assert rows(stack.database_url, "select max(attempts), max(epoch), count(*) from runs where state = 'done'") == [
        (1, 1, 3)
    ]
    assert rows(stack.database_url, "select state, count(*) from workers group by state") == [("alive", 2)]
    assert all(len(calls) == 1 for calls in script.asked.values())
    assert check_histories(stack.database_url) == 3
    assert blocked.popen.poll() is None
    assert peer.popen.poll() is None
    measured = f"another message was answered after {beside:.1f} s by the peer, those in hand after {after:.1f} s"
    print(f"blocked for {BLOCKED:g} s: {measured}")  # noqa: T201 - a figure of the report
