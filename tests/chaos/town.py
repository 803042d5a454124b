"""The processes under test, and who starts them again."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from deploy.local import leftovers
from deploy.local.servers import Servers
from tests.chaos.faketime import Faketime
from tests.chaos.history import Disturbance
from tests.chaos.line import Line
from tests.chaos.wired_worker import FOLDER, PLANT, SOCKET, SPARE
from tests.stack import Process, Stack, free_port, text_of
from tests.webhook_receiver import Receiver

LOOKS_EVERY = 0.1
WORKERS = 3
SPARES = 2
BROKEN = ('"run_broke"', '"conversation_broke"', '"batch_dropped"')
"""What a log says when something broke that should not."""

UNWOKEN = re.compile(r'(?m)^(?=.*"wake_up_not_sent").*"run": ?"([0-9a-f-]{36})"')
"""What a gateway's log says when Redis took too long to be told of a run."""

FENCED = 75
"""The exit code of a worker that its peers have counted as dead."""


class Town:
    """Two gateways, three workers and a scheduler, kept alive; ``asleep`` are those that are stopped now.

    Each worker has a line of its own to Postgres, and a test's wrappers before its ports. The first gateway and the
    first worker live by a clock that can be put off, where ``faketime`` is there.
    """

    def __init__(
        self,
        stack: Stack,
        servers: Servers,
        folder: Path,
        *,
        receiver: Receiver,
        plant: str = "",
        faketime: Faketime | None = None,
    ) -> None:
        self.receiver = receiver
        self.stack = stack
        self.servers = servers
        self.wipes: list[tuple[float, float]] = []
        self.crashes: list[str] = []
        self.asleep: set[int] = set()
        self.deaths: dict[int, float] = {}
        self.disturbances: list[Disturbance] = []
        self.socket = folder / "signals"
        self.lines: dict[int, Line] = {}
        self.faketime = faketime
        self._folder = folder.resolve()
        self._plant = plant
        self._told_to_stop: set[int] = set()
        self._posts: list[tuple[str, dict[str, str]]] = [
            *(("gateway", {"LUCYD_HTTP_PORT": str(free_port())}) for _ in range(2)),
            *(("agent_worker", {}) for _ in range(WORKERS)),
            ("scheduler", {}),
        ]
        self._lines: dict[int, Line] = {}
        self._holders: list[Process] = []
        self._spares: list[Process] = []

    @property
    def gateways(self) -> Sequence[str]:
        """The addresses; they stay when a gateway is started again."""
        return [f"http://127.0.0.1:{env['LUCYD_HTTP_PORT']}" for name, env in self._posts if name == "gateway"]

    async def open(self) -> None:
        """Start everything."""
        server = conninfo_to_dict(self.stack.database_url)
        for index, (name, _) in enumerate(self._posts):
            if name == "agent_worker":
                self._lines[index] = Line((str(server["host"]), int(str(server["port"]))))
                await self._lines[index].open()
        self._holders = [self._start(index) for index in range(len(self._posts))]

    async def close(self) -> None:
        """End everything now, and cut the lines. How processes end in order is not what is tried here."""
        for process in self.stack.processes:
            if process.popen.poll() is None:
                process.popen.kill()
            if process.popen.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.popen.stdin.close()
        for pid in self._left_alone():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for line in self._lines.values():
            await line.close()

    def all_started(self) -> bool:
        """Whether every process has said that it runs."""
        return all("service_started" in text_of(each) for each in self._holders)

    def up(self, name: str) -> list[Process]:
        """Those of this service that are up, awake and not about to end: others have nothing in hand."""
        spared = self.asleep | self._told_to_stop
        alive = [each for each in self._holders if each.name == name and each.popen.poll() is None]
        return [each for each in alive if each.popen.pid not in spared and "service_started" in text_of(each)]

    def note(self, fault: str, began: float, pid: int = 0) -> None:
        """Remember from when until now a fault held somebody up."""
        self.disturbances.append(Disturbance(fault, began, time.monotonic(), pid))

    def kill(self, process: Process) -> None:
        """SIGKILL now."""
        process.popen.kill()
        self.deaths.setdefault(process.popen.pid, time.monotonic())
        self.note(f"kill {process.name}", time.monotonic(), process.popen.pid)

    def pick(self, name: str, random: Random) -> Process | None:
        """One process of this service that is worth to be hit."""
        up = self.up(name)
        return random.choice(up) if up else None

    def tell_to_stop(self, process: Process) -> None:
        """SIGTERM; its successor starts when it has drained."""
        self._told_to_stop.add(process.popen.pid)
        process.popen.send_signal(signal.SIGTERM)

    async def keep(self) -> None:
        """Start again what has ended, for ever."""
        while True:
            self.servers.watch()
            for index, holder in enumerate(self._holders):
                if holder.popen.poll() is not None:
                    self._note_end(holder)
                    self._holders[index] = self._start(index)
            if len(self._spares) < SPARES:
                self._spares.append(self._launch_worker({}))
            began = time.monotonic()
            await asyncio.sleep(LOOKS_EVERY)
            if not self.up("agent_worker"):
                self.note("no worker up", began)

    def wake_all(self) -> None:
        """Let everybody go on who was stopped."""
        for holder in self._holders:
            if holder.popen.pid in self.asleep and holder.popen.poll() is None:
                holder.popen.send_signal(signal.SIGCONT)
        self.asleep.clear()

    def forgive_servers(self) -> None:
        """Have a server that is killed start again at once, however often that has happened."""
        for keeper in self.servers.keepers:
            keeper._pause = None

    def pid_of_redis(self) -> int | None:
        """The Valkey that works in our folder, if it runs."""
        return self._server("valkey-server", self._folder.glob("**/valkey.pid"))

    def pid_of_postgres(self) -> int | None:
        """The postmaster that works in our folder, if it runs."""
        return self._server("postgres", self._folder.glob("**/postmaster.pid"))

    def broken_runs(self) -> list[str]:
        """Lines of all logs that tell of a fault of the product's own."""
        lines = ((each.log.name, line) for each in self.stack.processes for line in text_of(each).splitlines())
        return [f"{log}: {line[:400]}" for log, line in lines if any(word in line for word in BROKEN)]

    def unwoken_runs(self) -> frozenset[str]:
        """Runs whose wake-up Redis took too long for, as the gateways tell."""
        logs = (text_of(each) for each in self.stack.processes if each.name == "gateway")
        return frozenset(run for log in logs for run in UNWOKEN.findall(log))

    def _left_alone(self) -> Iterator[int]:
        """Processes that workers started for a suspect, and that wait for a Postgres which will not come back."""
        ours = f"{FOLDER}={self._folder}".encode()
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if ours in environment.read_bytes().split(b"\0"):
                    yield int(environment.parent.name)

    def _start(self, index: int) -> Process:
        name, env = self._posts[index]
        if self.faketime is not None and index in (0, 2):
            env = {**env, **self.faketime.environment}
        if name != "agent_worker":
            process = self.stack.start(name, **env)
        else:
            process = self._start_worker(env, self._lines[index])
            self.lines[process.popen.pid] = self._lines[index]
        return process

    def _start_worker(self, env: dict[str, str], line: Line) -> Process:
        url = make_conninfo(self.stack.database_url, host="127.0.0.1", port=line.port)
        process = self._launch_worker(env) if env or not self._spares else self._spares.pop(0)
        assert process.popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.popen.stdin.write(json.dumps({"LUCYD_DATABASE_URL": url}).encode() + b"\n")
            process.popen.stdin.close()
        return process

    def _launch_worker(self, env: dict[str, str]) -> Process:
        """Start one that waits for its address of Postgres, with everything imported: a start takes seconds."""
        chaos = {SOCKET: str(self.socket), FOLDER: str(self._folder), PLANT: self._plant, SPARE: "1"}
        words = ["tests.chaos.wired_worker"]
        return self.stack.launch("agent_worker", words, {**env, **chaos}, stdin=subprocess.PIPE)

    def _note_end(self, process: Process) -> None:
        code, pid = process.popen.returncode, process.popen.pid
        self.deaths.setdefault(pid, time.monotonic())
        fine = {-signal.SIGKILL, *((FENCED,) if process.name == "agent_worker" else ())}
        if pid in self._told_to_stop:
            fine |= {0, -signal.SIGTERM}  # the latter when it had not even begun to listen
        if code not in fine:
            self.crashes.append(f"{process.log.name}: {process.name} ended with {code}")

    def _server(self, program: str, files: Iterable[Path]) -> int | None:
        for file in files:
            pid = leftovers.first_number(file)
            if leftovers.is_server(pid, program, file.parent, str(file.parent)):
                return pid
        return None


async def wait_for(holds: Callable[[], bool], patience: float) -> bool:
    """Ask again and again, in a thread; a database that is away is a no."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            if await asyncio.to_thread(holds):
                return True
        except psycopg.OperationalError:
            pass
        await asyncio.sleep(LOOKS_EVERY)
    return False
