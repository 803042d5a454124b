"""A stopped worker wakes up after its conversations went to another: it writes nothing any more, and ends itself."""

import asyncio
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import redis

from tests.e2e.proofs import CountingModel, acted, answer, ask, check_histories, everything, everything_told, rows
from tests.scripted_model_server import Asked, Say, ScriptedModelServer, Step
from tests.stack import Process, Stack, async_client, model_toml, open_stack, wait_until

pytestmark = pytest.mark.alone

ASLEEP = 20.0
SPEECH = "A long speech goes on and on. " * 20
ASKS = {"call": "plain", "act": "act", "speech": "speech"}


class Script(CountingModel):
    """Also a speech, which is told in pieces."""

    def __call__(self, asked: Asked) -> Step:
        step = super().__call__(asked)
        return Say(SPEECH) if isinstance(step, Say) and "speech" in asked.text else step


@pytest.fixture
def script() -> CountingModel:
    """The first call hangs and the act runs while their worker is stopped; both end before it wakes up."""
    return Script(hold={("plain", 0): 12.0}, act_takes=10)


@pytest.fixture
def models(script: CountingModel) -> Iterator[ScriptedModelServer]:
    """Slow speech."""
    with ScriptedModelServer(default=script, chunks=60, chunk_interval=0.15).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """Workers that take one conversation each."""
    toml = model_toml("anthropic", models.base_url("anthropic"), extra="\n[worker]\nslots = 1\n")
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


async def test_three_workers_that_were_stopped_write_nothing_when_they_wake_up(
    stack: Stack, script: CountingModel, models: ScriptedModelServer
) -> None:
    """In a model call, in a command, while streaming: an heir finishes, and the old owners end with 75."""
    gateway = stack.gateway()
    victims = stack.workers(3)
    async with async_client(gateway) as http:
        waiting = {
            key: asyncio.create_task(http.post("/api/v1/chat", json={"message": ask(key, kind), "sender": key}))
            for key, kind in ASKS.items()
        }

        def all_in_hand() -> bool:
            return script.made(["call"], 0) == 1 and acted(stack.workspace) == {"act": 1} and _deltas(stack) >= 3

        await asyncio.to_thread(wait_until, all_in_hand, "each has its conversation")
        owners = _owners(stack, victims)
        assert set(owners) == set(ASKS)
        heir_config = stack.config.with_name("heir.toml")
        heir_config.write_text(stack.config.read_text().replace("slots = 1", "slots = 64"))
        stack.config = heir_config
        (heir,) = await asyncio.to_thread(stack.workers, 1)
        for victim in victims:
            victim.popen.send_signal(signal.SIGSTOP)
        stopped_at = time.monotonic()
        models.chunk_interval = 0.02
        await asyncio.to_thread(wait_until, lambda: _epochs(stack) == {2}, "the heir has all three", within=15)
        taken_over = time.monotonic() - stopped_at
        assert taken_over < 12  # promised are 10, on a machine that does nothing else
        replies = {key: (await task).json() for key, task in waiting.items()}
        answered = time.monotonic() - stopped_at
        assert {key: body["reply"].strip() for key, body in replies.items()} == {
            "call": answer("call"),
            "act": answer("act"),
            "speech": SPEECH.strip(),
        }
        assert any("may or may not have happened" in notice for notice in replies["act"]["notices"])
        await asyncio.sleep(max(0.0, ASLEEP - (time.monotonic() - stopped_at)))
        runs = [run for (run,) in rows(stack.database_url, "select id::text from runs")]
        workers = [str(worker) for worker, _ in owners.values()]
        before = everything(stack.database_url, without_workers=workers), everything_told(stack.redis_url, runs)
        for victim in victims:
            victim.popen.send_signal(signal.SIGCONT)
        woken_at = time.monotonic()
        codes = {key: await asyncio.to_thread(victim.popen.wait, 15) for key, (_, victim) in owners.items()}
        gone_after = time.monotonic() - woken_at
        await asyncio.sleep(2)
        after = everything(stack.database_url, without_workers=workers), everything_told(stack.redis_url, runs)

    assert after == before
    assert codes == dict.fromkeys(ASKS, 75)
    assert heir.popen.poll() is None
    assert acted(stack.workspace) == {"act": 1}
    assert rows(stack.database_url, "select state, attempts, epoch, count(*) from runs group by 1, 2, 3") == [
        ("done", 2, 2, 3)
    ]
    states = dict(rows(stack.database_url, "select id::text, state from workers"))
    assert {states[worker] for worker in workers} == {"fenced"}
    assert {place: len(calls) for place, calls in script.asked.items()} == {
        ("call", 0): 2,
        ("act", 0): 1,
        ("act", 1): 1,
        ("speech", 0): 2,
    }
    assert check_histories(stack.database_url) == 3
    measured = f"taken over {taken_over:.1f} s and answered {answered:.1f} s after the stop"
    print(f"{measured}; the old owners were gone {gone_after:.2f} s after waking up")  # noqa: T201 - of the report


def _epochs(stack: Stack) -> set[int]:
    return {epoch for (epoch,) in rows(stack.database_url, "select epoch from runs")}


def _deltas(stack: Stack) -> int:
    """How many pieces of the speech were told."""
    found = rows(stack.database_url, "select id::text from runs where conversation like '%%:speech'")
    if not found:
        return 0
    with redis.Redis.from_url(stack.redis_url, decode_responses=True) as client:
        events: list[tuple[str, dict[str, str]]] = client.xrange(f"lucyd:run:{found[0][0]}:events")
    return sum(fields["type"] == "delta" for _, fields in events)


def _owners(stack: Stack, workers: list[Process]) -> Mapping[str, tuple[str, Process]]:
    """Which worker has which conversation."""
    by_pid = {worker.popen.pid: worker for worker in workers}
    found = rows(
        stack.database_url,
        "select c.key, w.id::text, w.pid from conversations c join workers w on w.id = c.owner",
    )
    return {key.rpartition(":")[2]: (worker, by_pid[pid]) for key, worker, pid in found}
