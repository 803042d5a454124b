"""The faults, each done to living processes. Each tells the moment at which it comes."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psycopg
import redis

from shared.messages import routes
from tests.chaos.gates import Signals
from tests.chaos.load import Load
from tests.chaos.plan import Ask
from tests.chaos.town import Town, wait_for
from tests.stack import Process
from tests.webhook_receiver import Act

SHORT_PAUSE = (1.0, 3.0)
LONG_PAUSE = (8.0, 10.0)
"""Seconds; a worker is fenced after 6."""

REDIS_PAUSE = (1.0, 5.0)
LATE_BY = 3.0
JUMP = 3600
RECEIVER_FAILS_FOR = 2.0
BEGINS_WITHIN = 8.0
"""Seconds within which a tool that blocks must have been reached."""

WORKER = "agent_worker"


@dataclass
class Scene:
    """Where a fault happens. ``moment`` is set at the instant at which it comes, ``moment_at`` says when that was.

    ``gather`` sends the asks and waits until runs stand where they are wanted; it is called before, but for faults that
    are slow to come. ``victim`` is the worker that got them, ``long`` asks for the longer form of a fault.
    """

    town: Town
    load: Load
    signals: Signals
    random: Random
    gather: Callable[[], Awaitable[None]]
    victim: Process | None = None
    long: bool = False
    moment: asyncio.Event = field(default_factory=asyncio.Event)
    moment_at: float = 0.0

    def worker(self) -> Process | None:
        """The worker to be hit."""
        return self.victim if self.victim in self.town.up(WORKER) else self.town.pick(WORKER, self.random)

    def now(self) -> float:
        """It comes now; the time on the monotonic clock."""
        self.moment_at = time.monotonic()
        self.moment.set()
        return self.moment_at


Fault = Callable[[Scene], Coroutine[Any, Any, bool]]


def kill(service: str) -> Fault:
    """SIGKILL one process of the service."""

    async def hit(scene: Scene) -> bool:
        process = scene.worker() if service == WORKER else scene.town.pick(service, scene.random)
        if process is not None:
            scene.now()
            scene.town.kill(process)
        return process is not None

    return hit


def pause(seconds: tuple[float, float]) -> Fault:
    """SIGSTOP a worker, SIGCONT it some time later."""

    async def hit(scene: Scene) -> bool:
        process = scene.worker()
        if process is None:
            return False
        town, pid = scene.town, process.popen.pid
        town.asleep.add(pid)
        began = scene.now()
        process.popen.send_signal(signal.SIGSTOP)
        await asyncio.sleep(scene.random.uniform(*seconds))
        if process.popen.poll() is None:
            process.popen.send_signal(signal.SIGCONT)
        town.asleep.discard(pid)
        town.note("pause", began, pid)
        return True

    return hit


async def term_worker(scene: Scene) -> bool:
    """SIGTERM: it drains and is replaced, as in a deployment."""
    process = scene.worker()
    if process is not None:
        scene.town.note("term", scene.now(), process.popen.pid)
        scene.town.tell_to_stop(process)
    return process is not None


async def late_write(scene: Scene) -> bool:
    """The network keeps a worker's steps back; it is killed, and they arrive when an heir is at work."""
    process = scene.worker()
    if process is None:
        return False
    line = scene.town.lines[process.popen.pid]
    line.hold_steps()
    scene.signals.let_all_pass()
    end = time.monotonic() + 1.0
    while not line.late and time.monotonic() < end:
        await asyncio.sleep(0.02)
    scene.now()
    scene.town.kill(process)
    await asyncio.sleep(LATE_BY)
    line.deliver()
    return True


async def flush(scene: Scene) -> bool:
    """FLUSHALL."""
    began, came = time.time(), False
    with contextlib.suppress(redis.RedisError):
        at = scene.now()
        await asyncio.to_thread(redis.Redis.from_url(scene.town.stack.redis_url, socket_timeout=5).flushall)
        scene.town.note("flushall", at)
        came = True
    scene.town.wipes.append((began, time.time()))
    return came


async def kill_redis(scene: Scene) -> bool:
    """SIGKILL Redis; it starts again, empty."""
    pid = scene.town.pid_of_redis()
    if pid is None:
        return False
    began = time.time()
    scene.town.forgive_servers()
    at = scene.now()
    os.kill(pid, signal.SIGKILL)
    await asyncio.sleep(0.3)
    await wait_for(lambda: _answers(scene.town), 30)
    scene.town.wipes.append((began, time.time()))
    scene.town.note("kill redis", at)
    return True


async def pause_redis(scene: Scene) -> bool:
    """SIGSTOP Redis, SIGCONT it some time later."""
    pid = scene.town.pid_of_redis()
    if pid is None:
        return False
    at = scene.now()
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(scene.random.uniform(*REDIS_PAUSE))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    scene.town.note("pause redis", at)
    return True


async def lost_wake_ups(scene: Scene) -> bool:
    """All workers sleep for some seconds: messages come, Redis is emptied before they are read of, more come."""
    workers = scene.town.up("agent_worker")
    for process in workers:
        process.popen.send_signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(1.5)
        came = await flush(scene)
        scene.load.target += 8  # those that are open wait for somebody who sleeps
        await asyncio.sleep(1.0)
        scene.load.target -= 8
    finally:
        for process in workers:
            process.popen.send_signal(signal.SIGCONT)
    return came


async def kill_postgres(scene: Scene) -> bool:
    """SIGKILL of the postmaster; it starts again and recovers."""
    pid = scene.town.pid_of_postgres()
    if pid is None:
        return False
    scene.town.forgive_servers()
    at = scene.now()
    os.kill(pid, signal.SIGKILL)
    await asyncio.sleep(0.3)
    await wait_for(lambda: _is_up(scene.town), 30)
    scene.town.note("kill postgres", at)
    return True


async def cut_in_commit(scene: Scene) -> bool:
    """The lines break on which a claim or a step is under way, when the server has committed and nobody knows."""
    workers = scene.town.up("agent_worker")
    lines = [scene.town.lines[process.popen.pid] for process in workers]
    cut = sum(line.cut for line in lines)
    at = scene.now()
    for line in lines:
        line.cut_in_commit(2)
    await asyncio.sleep(0.05)
    scene.signals.let_all_pass()
    end = time.monotonic() + 2.0
    while sum(line.cut for line in lines) == cut and time.monotonic() < end:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    for line in lines:
        line.cut_in_commit(0)
    scene.town.note("cut in commit", at)
    return sum(line.cut for line in lines) > cut


async def wake_twice(scene: Scene) -> bool:
    """Every open run is announced twice more, as a broker does that lost an acknowledgement."""
    try:
        async with await psycopg.AsyncConnection.connect(scene.town.stack.database_url, connect_timeout=3) as database:
            found = await database.execute(
                "select conversation, id::text from runs where state in ('accepted', 'running') order by accepted_at"
            )
            rows = await found.fetchall()
        scene.now()
        with redis.Redis.from_url(scene.town.stack.redis_url, socket_timeout=5) as client:
            for conversation, run in [*rows, *rows]:
                client.xadd(routes.INBOUND, {"conversation": conversation, "run": run})
    except (psycopg.OperationalError, redis.RedisError):
        return False
    return bool(rows)


async def receiver_fails(scene: Scene) -> bool:
    """Whoever gets the webhooks answers 500, or nothing, or cuts the line, for some seconds."""
    receiver = scene.town.receiver
    scene.now()
    acts: list[Act] = [500, "hang", "cut"]
    receiver.script[:] = [scene.random.choice(acts)]
    await asyncio.sleep(RECEIVER_FAILS_FOR)
    receiver.script[:] = [200]
    return True


async def jump_clock(scene: Scene) -> bool:
    """The clock port of one worker jumps an hour, and back some seconds later.

    So does the wall clock of a whole gateway and a whole worker, where libfaketime is there.
    """
    process, jump = scene.worker(), scene.random.choice([-JUMP, JUMP])
    if process is None or not scene.signals.tell(process.popen.pid, f"clock {jump}"):
        return False
    scene.now()
    if scene.town.faketime is not None:
        scene.town.faketime.put_off(jump)
    await asyncio.sleep(2)
    scene.signals.tell(process.popen.pid, "clock 0")
    if scene.town.faketime is not None:
        scene.town.faketime.put_off(0)
    return True


def block(how: str, seconds: float, longer: float) -> Fault:
    """A tool of a run blocks its worker."""

    async def hit(scene: Scene) -> bool:
        name = f"9{scene.random.randrange(10**9)}"
        scene.load.ask(Ask(name, "block", f"b{scene.random.randrange(1000)}", streamed=True))
        await asyncio.gather(scene.gather(), _begun(scene, name))
        if name not in scene.signals.blocking:
            return False
        pid, count = scene.signals.blocking[name], len(scene.signals.blocked)
        if not scene.signals.tell(pid, f"block {name} {how} {longer if scene.long else seconds}"):
            return False
        began = scene.now()
        scene.town.asleep.add(pid)
        while not any(each[0] == pid for each in scene.signals.blocked[count:]) and pid not in scene.town.deaths:
            await asyncio.sleep(0.1)
            if time.monotonic() - began > 60:
                break
        scene.town.asleep.discard(pid)
        scene.town.note(f"block {how}", began, pid)
        return True

    return hit


async def _begun(scene: Scene, name: str) -> None:
    end = time.monotonic() + BEGINS_WITHIN
    while name not in scene.signals.blocking and time.monotonic() < end:
        await asyncio.sleep(0.02)


def _answers(town: Town) -> bool:
    try:
        return bool(redis.Redis.from_url(town.stack.redis_url, socket_timeout=2).ping())
    except redis.RedisError:
        return False


def _is_up(town: Town) -> bool:
    with psycopg.connect(town.stack.database_url, connect_timeout=3) as database:
        return database.execute("select 1").fetchone() == (1,)


FAULTS: Mapping[str, Fault] = {
    "kill worker": kill("agent_worker"),
    "kill gateway": kill("gateway"),
    "kill scheduler": kill("scheduler"),
    "pause worker < fence": pause(SHORT_PAUSE),
    "pause worker > fence": pause(LONG_PAUSE),
    "term worker": term_worker,
    "flushall": flush,
    "kill redis": kill_redis,
    "pause redis": pause_redis,
    "kill postgres": kill_postgres,
    "cut in commit": cut_in_commit,
    "wake twice": wake_twice,
    "clock jump": jump_clock,
    "loop blocked": block("sleep", 2.0, 8.0),
    "gil held": block("gil", 3.0, 7.0),
    "receiver fails": receiver_fails,
}

MORE: Mapping[str, Fault] = {"lost wake-ups": lost_wake_ups, "late write": late_write}
"""For planted faults alone."""

SLOW_TO_COME = frozenset({"loop blocked", "gil held"})
"""Their moment comes when a tool has been reached."""

AT_ONE_WORKER = frozenset(
    {"kill worker", "pause worker < fence", "pause worker > fence", "term worker", "clock jump", *SLOW_TO_COME}
)
"""The runs of their scenes are all given to the worker that is hit; another one has to be there to go on."""

MOVES_NOBODY = frozenset({"kill gateway", "kill scheduler", "flushall", "wake twice", "receiver fails"})
"""These leave runs where they are held, so that the next one of them can come to the same runs."""

STOPS_ALL = frozenset({"kill postgres", "kill redis", "pause redis"})
"""While these last no other scene can be set."""
