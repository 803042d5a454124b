"""Redis and Postgres go away for half a minute, dead or merely mute: everything waits, reconnects and goes on."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
import redis

from deploy.local import leftovers
from deploy.local.servers import Servers, open_servers
from shared.adapters.postgres.migrate import migrate
from tests.e2e.proofs import CountingModel, acted, answer, ask, check_histories, ends_told, percentile, rows
from tests.scripted_model_server import ScriptedModelServer
from tests.stack import Process, Stack, async_client, model_toml, open_stack, text_of, wait_until

pytestmark = pytest.mark.alone

AWAY = 30.0
QUIET = 6.0
"""Seconds before, between and after the outages, with everything there."""

SERVICES = ("agent_worker", "telegram_bridge", "indexer", "consolidator", "scheduler")
SENDERS = 5
ANSWERED_WITHIN = 10.0
"""Seconds in which a chat is answered while Redis is away: its worker and its gateway find it in Postgres."""

REFUSED_WITHIN = 6.0
"""Seconds in which a message is refused while Postgres is away."""

BACK_WITHIN = 15.0
"""Seconds after which a message is answered again once Postgres is there."""


@dataclass
class Town:
    """Servers of its own, all six services, and where their health is told."""

    folder: Path
    servers: Servers
    stack: Stack
    model: CountingModel
    gateway: Process
    health: Mapping[str, str] = field(default_factory=dict)

    def pids_of_redis(self) -> list[int]:
        """The server's one process."""
        return [_pid(self.folder, "valkey.pid")]

    def pids_of_postgres(self) -> list[int]:
        """The postmaster, and the processes it has started."""
        master = _pid(self.folder, "postmaster.pid")
        return [master, *_children(master)]


@dataclass
class Seen:
    """One request of a client: when it was sent, what came of it and after how long."""

    at: float
    status: int
    seconds: float
    retry_after: str | None = None


@dataclass
class Load:
    """A few people who talk on and on, and new ones who come; a message is sent under its key until it is answered."""

    town: Town
    seen: list[Seen] = field(default_factory=list)
    answered: dict[str, str] = field(default_factory=dict)
    answered_at: dict[str, tuple[float, float]] = field(default_factory=dict)
    readiness: list[tuple[float, str, int, Mapping[str, str]]] = field(default_factory=list)
    over: bool = False

    async def talk(self, http: httpx2.AsyncClient, sender: str) -> None:
        """One person, who waits for each reply; every fifth message asks for a command."""
        for number in count():
            if self.over:
                return
            await self._say(http, sender, number)
            await asyncio.sleep(0.3)

    async def call(self, http: httpx2.AsyncClient) -> None:
        """Somebody new comes twice a second, whatever became of those before."""
        async with asyncio.TaskGroup() as callers:
            for number in count():
                if self.over:
                    return
                callers.create_task(self._say(http, f"caller{number}", 4 if number % 3 == 0 else 0))
                await asyncio.sleep(0.5)

    async def _say(self, http: httpx2.AsyncClient, sender: str, number: int) -> None:
        key = f"{sender}-{number}"
        kind = "second" if number % 5 == 4 else "plain"
        body, headers = {"message": ask(key, kind), "sender": sender}, {"Idempotency-Key": key}
        began = time.monotonic()
        while True:
            sent_at = time.monotonic()
            try:
                response = await http.post("/api/v1/chat", json=body, headers=headers)
            except httpx2.TimeoutException as fault:
                raise AssertionError(f"{key} was not answered: {self._stands(key, sender)}") from fault
            now = time.monotonic()
            self.seen.append(Seen(sent_at, response.status_code, now - sent_at, response.headers.get("retry-after")))
            if response.status_code == 200:
                break
            await asyncio.sleep(1.0)
        assert key not in self.answered
        self.answered[key] = response.json()["reply"]
        self.answered_at[key] = (began, now)

    def _stands(self, key: str, sender: str) -> list[tuple[Any, ...]]:
        """How it stands with the runs of somebody who waits in vain; for whoever reads the failure."""
        return rows(
            self.town.stack.database_url,
            "select r.id::text, r.state, r.stage, r.step, r.attempts, r.epoch, r.accepted_at::text, r.claimed_at::text,"
            " r.finished_at::text, c.owner::text, now()::text from runs r join conversations c on c.key = conversation"
            " where conversation like %s and (r.state <> 'done' or r.message ->> 'text' like %s)",
            f"%:{sender}",
            f"#{key} %",
        )

    async def watch(self, http: httpx2.AsyncClient) -> None:
        """Ask every process how it is, once a second."""
        addresses = {**self.town.health, "gateway": self.town.gateway.url}
        while not self.over:
            at = time.monotonic()
            await asyncio.gather(*(self._ask(http, at, name, url) for name, url in addresses.items()))
            await asyncio.sleep(1.0)

    async def _ask(self, http: httpx2.AsyncClient, at: float, name: str, url: str) -> None:
        response = await http.get(f"{url}/readyz", timeout=10)
        self.readiness.append((at, name, response.status_code, response.json()["checks"]))
        alive = await http.get(f"{url}/healthz", timeout=10)
        assert alive.status_code == 200

    def during(self, begin: float, end: float) -> list[Seen]:
        """Requests that were sent and answered in this time."""
        return [each for each in self.seen if each.at >= begin and each.at + each.seconds <= end]

    def sent_during(self, begin: float, end: float) -> list[Seen]:
        """Requests that were sent in this time."""
        return [each for each in self.seen if begin <= each.at <= end]

    def told(self, begin: float, end: float, check: str) -> Mapping[str, set[tuple[int, bool]]]:
        """What each process said of itself in this time: status, and whether this dependency was there."""
        found: dict[str, set[tuple[int, bool]]] = {}
        for at, name, status, checks in self.readiness:
            if begin <= at <= end - 3:  # what was asked just before may be answered just after
                found.setdefault(name, set()).add((status, checks[check] == "ok"))
        return found


@contextlib.asynccontextmanager
async def open_town(folder: Path) -> AsyncIterator[tuple[Town, ScriptedModelServer]]:
    """Start everything and wait until all have told where they are."""
    folder.mkdir()
    script = CountingModel()
    with contextlib.ExitStack() as opened:
        models = opened.enter_context(ScriptedModelServer(default=script, latency=0.3).in_thread())
        servers = await asyncio.to_thread(opened.enter_context, open_servers(folder / "servers"))
        await asyncio.to_thread(migrate, servers.database_url)
        toml = model_toml("anthropic", models.base_url("anthropic"))
        stack = opened.enter_context(open_stack(folder / "stack", servers.database_url, servers.redis_url, toml))
        others = [stack.start(name) for name in SERVICES]
        gateway = await asyncio.to_thread(stack.gateway)
        town = Town(folder / "servers", servers, stack, script, gateway)
        for each in others:
            await asyncio.to_thread(wait_until, lambda each=each: "service_started" in text_of(each), each.name)
        town.health = await _health(town)
        yield town, models


@pytest.mark.timeout(240)
async def test_redis_and_postgres_may_go_away_and_come_back(tmp_path: Path) -> None:
    """Killed and started again after half a minute, and stopped for as long: each in a town of its own."""
    async with (
        open_town(tmp_path / "a") as (one, its_model),
        open_town(tmp_path / "b") as (other, model_of_other),
        asyncio.TaskGroup() as towns,
    ):
        towns.create_task(_redis_goes(one, its_model))
        towns.create_task(_postgres_goes(other, model_of_other))


async def _redis_goes(town: Town, models: ScriptedModelServer) -> None:
    async with _under_load(town) as load:
        outages = [
            await _outage(town, "redis", _killed(town, town.pids_of_redis)),
            await _outage(town, "redis", _stopped(town.pids_of_redis)),
        ]
        before = {name for name, url in town.health.items()}
        await asyncio.to_thread(wait_until, lambda: set(_monitor(town)) >= before, "all are on the monitor again")
        await asyncio.to_thread(wait_until, lambda: _job_workers(town) == 2, "jobs are taken again", within=15)
    for begin, end in outages:
        # Accepting goes on, and so do replies: nobody is turned away.
        sent = load.sent_during(begin, end)
        assert {each.status for each in sent} == {200}
        assert max(each.seconds for each in sent) < ANSWERED_WITHIN
        assert len(sent) >= AWAY  # two a second come anew
        _say("redis away", load, begin, end)
    _check(town, load, models, outages, check="redis", other="postgres")
    runs = [run for (run,) in rows(town.stack.database_url, "select id::text from runs")]
    wait_until(lambda: set(ends_told(town.stack.redis_url, runs).values()) == {1}, "all ends are told", within=20)


async def _postgres_goes(town: Town, models: ScriptedModelServer) -> None:
    async with _under_load(town) as load:
        outages = [
            await _outage(town, "postgres", _killed(town, lambda: town.pids_of_postgres()[:1])),
            await _outage(town, "postgres", _stopped(town.pids_of_postgres)),
        ]
        await asyncio.to_thread(wait_until, lambda: _leads(town), "the scheduler leads again", within=15)
    for begin, end in outages:
        refused = [each for each in load.during(begin + 1, end) if each.status != 200]
        assert {each.status for each in refused} == {503}
        assert all(int(each.retry_after or 0) >= 1 for each in refused)
        assert len(refused) >= AWAY
        assert max(each.seconds for each in refused) < REFUSED_WITHIN
        back = min(each.at + each.seconds for each in load.seen if each.status == 200 and each.at + each.seconds > end)
        assert back - end < BACK_WITHIN
        _say(f"postgres away, {len(refused)} refused; back after {back - end:.1f} s", load, begin, end)
    _check(town, load, models, outages, check="postgres", other="redis")


def _check(
    town: Town,
    load: Load,
    models: ScriptedModelServer,
    outages: list[tuple[float, float]],
    *,
    check: str,
    other: str,
) -> None:
    assert [each.name for each in town.stack.processes if each.popen.poll() is not None] == []
    assert [each.log.name for each in town.stack.processes if "Traceback" in text_of(each)] == []
    services = {*SERVICES, "gateway"}
    for begin, end in outages:
        told = load.told(begin + 4, end, check)
        assert told == {name: {(503, False)} for name in services}
        assert all((503, True) in said for said in load.told(begin + 4, end, other).values())
    # The quiet times between, once everybody has reconnected.
    begins = [*(begin for begin, _ in outages[1:]), time.monotonic()]
    for begin, end in zip((end for _, end in outages), begins, strict=True):
        last = {name: (status, checks) for at, name, status, checks in load.readiness if begin < at < end}
        assert {name: status for name, (status, _) in last.items()} == dict.fromkeys(services, 200), last
    url = town.stack.database_url
    assert load.answered == {key: answer(key) for key in load.answered}
    assert rows(url, "select state, attempts, epoch, count(*) from runs where attempts <> 1 group by 1, 2, 3") == []
    assert rows(url, "select state, count(*) from runs group by state") == [("done", len(load.answered))]
    assert rows(url, "select state, count(*) from workers group by state") == [("alive", 1)]
    assert {place: len(calls) for place, calls in town.model.asked.items() if len(calls) > 1} == {}
    assert set(models.calls.values()) == {1}
    acts = acted(town.stack.workspace)
    assert acts == dict.fromkeys((key for key in load.answered if int(key.rpartition("-")[2]) % 5 == 4), 1)
    assert check_histories(url) == len({key.partition("-")[0] for key in load.answered})


@contextlib.asynccontextmanager
async def _under_load(town: Town) -> AsyncIterator[Load]:
    """People talk and somebody watches, until the block ends and the last of them has been answered."""
    load = Load(town)
    async with (
        async_client(town.gateway, limits=httpx2.Limits(max_connections=200)) as http,
        httpx2.AsyncClient() as watching,
        asyncio.TaskGroup() as going,
    ):
        for number in range(SENDERS):
            going.create_task(load.talk(http, f"sender{number}"))
        going.create_task(load.call(http))
        going.create_task(load.watch(watching))
        await asyncio.sleep(QUIET)
        yield load
        await asyncio.sleep(QUIET)
        load.over = True


Fault = Callable[[], Awaitable[None]]


def _killed(town: Town, pids: Callable[[], list[int]]) -> tuple[Fault, Fault]:
    async def begin() -> None:
        for pid in pids():
            os.kill(pid, signal.SIGKILL)

    async def end() -> None:
        for _ in range(20):  # the launcher looks five times a second
            town.servers.watch()
            await asyncio.sleep(0.1)

    return begin, end


def _stopped(pids: Callable[[], list[int]]) -> tuple[Fault, Fault]:
    stopped: list[int] = []

    async def begin() -> None:
        stopped.extend(pids())
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)

    async def end() -> None:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    return begin, end


async def _outage(town: Town, what: str, fault: tuple[Fault, Fault]) -> tuple[float, float]:
    """Let the server be away; from when to when it was."""
    begin, end = fault
    await begin()
    began = time.monotonic()
    try:
        await asyncio.sleep(AWAY)
    finally:
        ended = time.monotonic()
        await end()
    answers = {"redis": _redis_answers, "postgres": _postgres_answers}[what]
    await asyncio.to_thread(wait_until, lambda: answers(town), f"{what} is back", within=30)
    await asyncio.sleep(QUIET)
    return began, ended


def _redis_answers(town: Town) -> bool:
    try:
        with redis.Redis.from_url(town.stack.redis_url, socket_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def _postgres_answers(town: Town) -> bool:
    try:
        return rows(town.stack.database_url, "select 1") == [(1,)]
    except Exception:  # noqa: BLE001 - whatever it says, it does not answer yet
        return False


def _monitor(town: Town) -> dict[str, dict[str, str]]:
    with redis.Redis.from_url(town.stack.redis_url, decode_responses=True, socket_timeout=5) as client:
        found = [cast("dict[str, Any]", client.hgetall(key)) for key in client.scan_iter("lucyd:monitor:*", count=500)]
    return {each["service"]: each for each in found if "service" in each}


async def _health(town: Town) -> Mapping[str, str]:
    await asyncio.to_thread(wait_until, lambda: set(_monitor(town)) >= set(SERVICES), "all are on the monitor")
    return {name: each["health"] for name, each in _monitor(town).items() if name in SERVICES}


def _leads(town: Town) -> bool:
    return _monitor(town)["scheduler"]["role"] == "leader"


def _job_workers(town: Town) -> int:
    """How many processes take jobs, as RQ tells it."""
    with redis.Redis.from_url(town.stack.redis_url, decode_responses=True, socket_timeout=5) as client:
        return sum(bool(client.exists(key)) for key in cast("set[str]", client.smembers("rq:workers")))


def _say(what: str, load: Load, begin: float, end: float) -> None:
    took = [done - began for began, done in load.answered_at.values() if begin <= began <= end]
    usual = [done - began for began, done in load.answered_at.values() if not begin <= began <= end]
    print(  # noqa: T201 - a figure of the report
        f"{what}: {end - begin:.1f} s, {len(took)} messages sent meanwhile, answered after p50 "
        f"{percentile(took, 0.5):.1f} s, at most {max(took):.1f} s; otherwise p50 {percentile(usual, 0.5):.2f} s"
    )


def _pid(folder: Path, name: str) -> int:
    return next(pid for file in folder.glob(f"**/{name}") if (pid := leftovers.first_number(file)) > 1)


def _children(parent: int) -> list[int]:
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(file.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(file.parent.name))
    return found
