"""The processes under test, and who starts them again."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random

import psycopg

from deploy.local import leftovers
from deploy.local.servers import Servers
from tests.stack import Process, Stack, free_port, text_of

LOOKS_EVERY = 0.2
FENCED = 75
"""The exit code of a worker that its peers have counted as dead."""


class Town:
    """Two gateways, two workers and a scheduler, kept alive; ``asleep`` are those that are stopped now."""

    def __init__(self, stack: Stack, servers: Servers, folder: Path) -> None:
        self.stack = stack
        self.servers = servers
        self.wipes: list[tuple[float, float]] = []
        self.crashes: list[str] = []
        self.asleep: set[int] = set()
        self._folder = folder.resolve()
        self._told_to_stop: set[int] = set()
        self._posts: list[tuple[str, dict[str, str]]] = [
            *(("gateway", {"LUCYD_HTTP_PORT": str(free_port())}) for _ in range(2)),
            *(("agent_worker", {}) for _ in range(2)),
            ("scheduler", {}),
        ]
        self._holders: list[Process] = []

    @property
    def gateways(self) -> Sequence[str]:
        """The addresses; they stay when a gateway is started again."""
        return [f"http://127.0.0.1:{env['LUCYD_HTTP_PORT']}" for name, env in self._posts if name == "gateway"]

    def open(self) -> None:
        """Start everything."""
        self._holders = [self.stack.start(name, **env) for name, env in self._posts]

    def pick(self, name: str, random: Random) -> Process | None:
        """One process of this service that is up, awake and not about to end: others have nothing in hand."""
        spared = self.asleep | self._told_to_stop
        alive = [each for each in self._holders if each.name == name and each.popen.poll() is None]
        up = [each for each in alive if each.popen.pid not in spared and "service_started" in text_of(each)]
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
                    name, env = self._posts[index]
                    self._holders[index] = self.stack.start(name, **env)
            await asyncio.sleep(LOOKS_EVERY)

    def wake_all(self) -> None:
        """Let everybody go on who was stopped."""
        for holder in self._holders:
            if holder.popen.pid in self.asleep and holder.popen.poll() is None:
                holder.popen.send_signal(signal.SIGCONT)
        self.asleep.clear()

    def pid_of_redis(self) -> int | None:
        """The Valkey that works in our folder, if it runs."""
        return self._server("valkey-server", self._folder.glob("**/valkey.pid"))

    def pid_of_postgres(self) -> int | None:
        """The postmaster that works in our folder, if it runs."""
        return self._server("postgres", self._folder.glob("**/postmaster.pid"))

    def broken_runs(self) -> list[str]:
        """Lines of all logs that tell of a fault of the product's own."""
        lines = ((each.log.name, line) for each in self.stack.processes for line in text_of(each).splitlines())
        return [f"{log}: {line[:400]}" for log, line in lines if '"run_broke"' in line]

    def _note_end(self, process: Process) -> None:
        code, pid = process.popen.returncode, process.popen.pid
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
