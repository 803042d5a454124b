"""A message that kills whoever works on it is given up after four deaths, and takes nobody along."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import redis

from deploy.local.backoff import next_pause
from shared.adapters.postgres.fleet import KILLED_FOUR
from shared.messages import routes
from tests.e2e.poisonable_worker import POISON
from tests.e2e.proofs import rows
from tests.scripted_model_server import Hang, Say, Script, ScriptedModelServer
from tests.stack import PROJECT, Process, Stack, async_client, model_toml, open_stack, text_of, wait_until

pytestmark = pytest.mark.alone

GOOD = 50
DEATHS = 4
WORKER = "\n[worker]\nslots = 64\n[run]\nwait_seconds = 100\n"


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """A fifth of a second for each answer; ``long`` takes its time."""
    scripts: dict[str, Script] = {"long": [Hang(6.0), Say("That took a while.")]}
    with ScriptedModelServer(scripts, latency=0.2).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """Workers with room for everybody, and a chat channel whose replies are carried out by a bridge."""
    toml = model_toml("anthropic", models.base_url("anthropic"), extra=WORKER)
    with open_stack(tmp_path, database_url, redis_url, toml) as opened:
        yield opened


class Keeper:
    """Keeps one worker alive that may die of a message, as the launcher does. ``starts`` counts."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.log = stack.folder / "poisonable_worker.log"
        self.starts = 0

    def __enter__(self) -> "Keeper":
        self._thread.start()
        wait_until(lambda: self.log.exists() and b"service_started" in self.log.read_bytes(), "the worker has started")
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)

    def _keep(self) -> None:
        pause: timedelta | None = None
        while not self._over.is_set():
            began = time.monotonic()
            with self.log.open("ab") as out:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tests.e2e.poisonable_worker", "-c", str(self._stack.config)],
                    cwd=PROJECT,
                    env={"PATH": os.environ["PATH"], **self._stack._environment()},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
            self.starts += 1
            while self._process.poll() is None and not self._over.is_set():
                time.sleep(0.02)
            if self._over.is_set():
                self._process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(10)
                if self._process.poll() is None:
                    self._process.kill()
                    self._process.wait(10)
                return
            pause = next_pause(pause, timedelta(seconds=time.monotonic() - began))
            self._over.wait(pause.total_seconds())


def deaths(stack: Stack) -> int:
    """Workers that were found dead without a goodbye."""
    ((count,),) = rows(stack.database_url, "select count(*) from workers where state = 'fenced'")
    return int(count)


def dead_entries(stack: Stack) -> list[dict[str, str]]:
    """What operators are told of runs that were given up."""
    with redis.Redis.from_url(stack.redis_url, decode_responses=True) as client:
        return [fields for _, fields in client.xrange(routes.DEAD)]


async def test_one_poison_message_among_fifty_good_ones(stack: Stack, models: ScriptedModelServer) -> None:
    """One dead, its person told, fifty answered once each; the sums of the issue."""
    gateway = await asyncio.to_thread(stack.gateway)
    keeper = await asyncio.to_thread(Keeper(stack).__enter__)
    try:
        async with async_client(gateway) as http:
            http.timeout = 120
            began = time.monotonic()
            good = [
                asyncio.create_task(http.post("/api/v1/chat", json={"message": f"good {n}.", "sender": f"s{n}"}))
                for n in range(GOOD)
            ]
            poison = asyncio.create_task(
                http.post("/api/v1/chat", json={"message": f"Read this: {POISON}", "sender": "victim"})
            )
            replies = [(await task).json() for task in good]
            answered = time.monotonic() - began
            told = (await poison).json()
            over = time.monotonic() - began
            letters = (await http.get("/api/v1/dead")).json()["dead"]
            again = await http.post("/api/v1/chat", json={"message": "and now?", "sender": "victim"})
            await asyncio.to_thread(wait_until, lambda: dead_entries(stack), "it stands on lucyd:dead", within=20)
    finally:
        await asyncio.to_thread(keeper.__exit__)
    print(  # noqa: T201 - figures of the report
        f"poison: {deaths(stack)} deaths, {keeper.starts} starts; {GOOD} answered after {answered:.1f} s,"
        f" given up after {over:.1f} s"
    )
    assert all(f"good {n}." in reply["reply"] for n, reply in enumerate(replies))
    assert (told["reply"], told["error"]) == ("", KILLED_FOUR)
    assert "and now?" in again.json()["reply"]  # the conversation is not lost with the message
    states = rows(stack.database_url, "select state, count(*) from runs group by state order by state")
    assert states == [("dead", 1), ("done", GOOD + 1)]
    ((run, suspected),) = rows(stack.database_url, "select id::text, suspected from runs where state = 'dead'")
    assert suspected == DEATHS
    assert deaths(stack) == DEATHS
    ((most,),) = rows(stack.database_url, "select max(suspected) from runs where state = 'done'")
    assert most < 3, "an innocent run was taken for poison"
    said = rows(stack.database_url, "select role, count(*) from messages where not dropped group by role order by role")
    assert said == [("assistant", GOOD + 1), ("user", GOOD + 1)]  # once each, and the poison as if never said
    assert [(letter["kind"], letter["id"], letter["reason"]) for letter in letters] == [("run", run, KILLED_FOUR)]
    (entry,) = dead_entries(stack)
    assert (entry["run"], entry["reason"]) == (run, KILLED_FOUR)


async def test_the_person_of_a_chat_reads_why_there_is_no_answer(stack: Stack) -> None:
    """Messages in a channel that is carried: the sentence goes out as any reply does."""
    with psycopg.connect(stack.database_url, autocommit=True) as database:
        for name, text in (("1", f"Read this: {POISON}"), ("2", "hello")):
            key = f"telegram:{name}"
            database.execute(
                "insert into conversations (key, channel, principal, contact, last_ordinal)"
                " values (%s, 'telegram', 'person:1', 'Anna', 1)",
                (key,),
            )
            database.execute(
                "insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message,"
                " deadline_at) values (gen_random_uuid(), %s, 1, 'message', 'accepted', 'telegram', 'full', 'person:1',"
                " 'Anna', jsonb_build_object('text', %s::text), now() + interval '1 hour')",
                (key, text),
            )
    keeper = await asyncio.to_thread(Keeper(stack).__enter__)
    try:
        query = "select state from runs order by conversation"
        ended = [("dead",), ("done",)]
        await asyncio.to_thread(
            wait_until, lambda: rows(stack.database_url, query) == ended, "one dead, one done", within=60
        )
    finally:
        await asyncio.to_thread(keeper.__exit__)
    query = "select conversation, kind, state, body ->> 'text' from deliveries order by conversation"
    sent = rows(stack.database_url, query)
    assert sent[0] == ("telegram:1", "reply", "pending", KILLED_FOUR)
    assert sent[1][:3] == ("telegram:2", "reply", "pending")
    assert "hello" in sent[1][3]
    assert deaths(stack) == DEATHS


async def test_two_kills_make_no_innocent_run_dead(stack: Stack, models: ScriptedModelServer) -> None:
    """Twenty long chats, and somebody kills their worker twice: all go on in parallel after the first, and all end."""
    gateway = await asyncio.to_thread(stack.gateway)
    (worker,) = await asyncio.to_thread(stack.workers)
    async with async_client(gateway) as http:
        http.timeout = 170
        chats = [
            asyncio.create_task(http.post("/api/v1/chat", json={"message": f"[[script:long {n}]]", "sender": f"s{n}"}))
            for n in range(20)
        ]
        await asyncio.to_thread(wait_until, lambda: models.calls.total() == 20, "all are in hand")
        await asyncio.to_thread(worker.kill)
        (worker,) = await asyncio.to_thread(stack.workers)
        began = time.monotonic()
        await asyncio.to_thread(wait_until, lambda: models.calls.total() == 40, "all are in hand again")
        print(f"all 20 were in hand again {time.monotonic() - began:.1f} s after the start of the heir")  # noqa: T201
        assert time.monotonic() - began < 10
        assert rows(stack.database_url, "select distinct suspected from runs") == [(1,)]
        await asyncio.to_thread(worker.kill)
        await asyncio.to_thread(stack.workers)
        replies = [(await chat).json() for chat in chats]
    assert [reply["reply"] for reply in replies] == ["That took a while."] * 20
    assert rows(stack.database_url, "select state, count(*) from runs group by state") == [("done", 20)]
    assert rows(stack.database_url, "select max(suspected) from runs") == [(2,)]


async def test_a_worker_that_was_only_stopped_takes_its_suspicion_back(
    stack: Stack, models: ScriptedModelServer
) -> None:
    """A laptop that slept, a frozen container: nobody died of anything."""
    gateway = await asyncio.to_thread(stack.gateway)
    (worker,) = await asyncio.to_thread(stack.workers)
    async with async_client(gateway) as http:
        chat = asyncio.create_task(http.post("/api/v1/chat", json={"message": "[[script:long]]"}))
        await asyncio.to_thread(wait_until, lambda: models.calls.total() == 1, "it is in hand")
        worker.popen.send_signal(signal.SIGSTOP)
        (heir,) = await asyncio.to_thread(stack.workers)
        await asyncio.to_thread(
            wait_until,
            lambda: rows(stack.database_url, "select suspected, attempts from runs") == [(1, 2)],
            "the heir has it",
        )
        worker.popen.send_signal(signal.SIGCONT)
        assert await asyncio.to_thread(worker.popen.wait, 10) == 75
        await asyncio.to_thread(
            wait_until,
            lambda: rows(stack.database_url, "select suspected, suspected_by is null from runs") == [(0, True)],
            "the suspicion is taken back",
        )
        assert (await chat).json()["reply"] == "That took a while."
    assert _alive(heir)
    told = rows(stack.database_url, "select payload -> 'runs' from events where type = 'worker_was_alive'")
    assert told == [(1,)]


def _alive(process: Process) -> bool:
    return process.popen.poll() is None and "service_crashed" not in text_of(process)
