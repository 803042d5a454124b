"""Lucyd for the bench: servers of its own, all six services, any number of workers, and the cheap model server."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import redis

from bench.load import Gate, Tokens
from bench.personality import FIRST_LENGTH, write_personality
from bench.processes import cpu_seconds, cpu_seconds_of_tree, parent_of, resident_bytes
from bench.wire import Wire
from deploy.local.servers import open_servers
from shared.adapters.postgres.migrate import migrate
from tests.stack import PROJECT, TOKEN, Process, Stack, free_port, open_stack, text_of, wait_until

BESIDES = ("telegram_bridge", "indexer", "consolidator", "scheduler")
"""Services that are up and idle while messages are answered."""

STARTS_WITHIN = 60.0

_TOML = """
[agent]
name = "Benchbert"

[models.primary]
provider = "{provider}"
model = "bench"
base_url = "{base_url}"
max_tokens = 1000
max_context_tokens = 200000
cost_per_mtok = [3.0, 15.0, 0.30, 3.75]
supports_streaming = true

[http]
rate_limit = 1000000
status_rate_limit = 1000000
"""
"""What is not named has its default, as on anybody's machine. The rate limits would be the measured figure else."""


@dataclass
class Town:
    """Everything that runs. ``tokens`` and ``sender_names`` never give the same twice."""

    stack: Stack
    model_url: str
    model_pid: int
    wire: Wire
    gate: Gate = field(default_factory=lambda: Gate("", ""))
    workers: list[Process] = field(default_factory=list)
    tokens: Tokens = field(default_factory=Tokens)
    _gateways: list[Process] = field(default_factory=list)
    _besides: list[Process] = field(default_factory=list)
    _senders: int = 0

    def open(self) -> None:
        """Start what does not change during the bench: the gateway and the four services beside it."""
        self._open_gateway()
        self._besides = [self.stack.start(name) for name in BESIDES]
        for process in self._besides:
            _wait_for(process)

    def open_anew(self) -> None:
        """Take a fresh gateway: its memory is that of one that has served nobody yet."""
        for process in self._gateways:
            process.stop()
        self._open_gateway()

    def have_workers(self, count: int) -> None:
        """Start workers or let surplus ones drain; returns when exactly so many are up."""
        while len(self.workers) > count:
            self.workers.pop().stop()
        fresh = [self.stack.start("agent_worker") for _ in range(count - len(self.workers))]
        self.workers += fresh
        for process in fresh:
            _wait_for(process)

    def tidy_up(self) -> None:
        """Do now what Postgres does by itself every few minutes: a database without statistics plans like no other."""
        with psycopg.connect(self.stack.database_url, autocommit=True) as connection:
            connection.execute("vacuum analyze")

    def sender_names(self, count: int) -> Sequence[str]:
        """Fresh names of people who write."""
        begin, self._senders = self._senders, self._senders + count
        return [f"b{number:07d}" for number in range(begin, begin + count)]

    def cpu(self) -> Mapping[str, float]:
        """Seconds of CPU that each process has used so far, workers together, servers with all they started."""
        used: dict[str, float] = {}
        for process in (*self._gateways, *self._besides, *self.workers):
            used[process.name] = used.get(process.name, 0.0) + cpu_seconds(process.popen.pid)
        return {
            **used,
            "postgres": cpu_seconds_of_tree(self.postmaster()),
            "redis": cpu_seconds(self._redis()),
            "model_server": cpu_seconds(self.model_pid),
            "load": time.process_time(),
        }

    def resident(self) -> int:
        """Bytes of memory of the gateway and the workers now."""
        return sum(resident_bytes(process.popen.pid) for process in (*self._gateways, *self.workers))

    def gateway_resident(self) -> int:
        """Bytes of memory of the gateway now."""
        return sum(resident_bytes(process.popen.pid) for process in self._gateways)

    def check_alive(self) -> None:
        """Raises ``RuntimeError`` naming the log of the first process that has ended by itself."""
        for process in (*self._gateways, *self._besides, *self.workers):
            if process.popen.poll() is not None:
                last = text_of(process)[-2000:]
                raise RuntimeError(f"{process.name} ended with {process.popen.returncode}:\n{last}")

    def _open_gateway(self) -> None:
        gateway = self.stack.gateway()
        self.gate = Gate(gateway.url, TOKEN)
        self._gateways = [gateway]

    def pids(self) -> Mapping[str, int]:
        """Our processes and Redis; workers with their number in the name."""
        workers = {f"agent_worker-{number}": process for number, process in enumerate(self.workers, 1)}
        single = {process.name: process for process in (*self._gateways, *self._besides)}
        return {name: process.popen.pid for name, process in {**single, **workers}.items()} | {"redis": self._redis()}

    def postmaster(self) -> int:
        """The first process of Postgres."""
        with psycopg.connect(self.stack.database_url) as connection:
            return parent_of(connection.info.backend_pid)

    def _redis(self) -> int:
        with redis.Redis.from_url(self.stack.redis_url) as client:
            return int(client.info("server")["process_id"])


@contextlib.contextmanager
def open_town(
    folder: Path,
    wire: Wire = "openai",
    *,
    make_stack: Callable[[Stack], Stack] = lambda stack: stack,
    more_toml: str = "",
    model: str = "bench.model_server",
) -> Iterator[Town]:
    """Start everything but workers; everything has ended when the block has.

    ``make_stack`` gives another stack, which starts services in its own way, for the one that ends them. ``more_toml``
    goes on in ``[http]``; ``model`` is the module that serves the model.
    """
    with open_servers(folder / "servers") as servers, model_server(folder, model) as (model_url, model_pid):
        migrate(servers.database_url)
        base_url = f"{model_url}/v1" if wire == "openai" else model_url
        toml = _TOML.format(provider=wire, base_url=base_url) + more_toml
        with open_stack(folder / "stack", servers.database_url, servers.redis_url, toml) as stack:
            write_personality(stack.workspace, FIRST_LENGTH)
            town = Town(make_stack(stack), model_url, model_pid, wire)
            town.open()
            yield town


@contextlib.contextmanager
def model_server(folder: Path, module: str) -> Iterator[tuple[str, int]]:
    """A model server for as long as the block lasts: its address and its pid."""
    port = free_port()
    log = folder / "model_server.log"
    with log.open("wb") as out:
        popen = subprocess.Popen(
            [sys.executable, "-m", module, "--port", str(port)],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: "http://" in log.read_text("utf-8"), f"the model server is up; its log: {log}")
        yield f"http://127.0.0.1:{port}", popen.pid
    finally:
        popen.terminate()
        popen.wait(10)


def _wait_for(process: Process) -> None:
    def started() -> bool:
        if process.popen.poll() is not None:
            raise RuntimeError(f"{process.name} ended with {process.popen.returncode}:\n{text_of(process)[-2000:]}")
        return "service_started" in text_of(process)

    wait_until(started, f"{process.name} has started; its log: {process.log}", within=STARTS_WITHIN)
