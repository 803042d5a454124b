"""``python -m bench.profile_load``: where gateway and workers spend their CPU while more is asked than they can do."""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import orjson

from bench.cells import conversations_for, seeded, warm_up
from bench.hot_spots import Samples, added, tables
from bench.load import closed_loop
from bench.logs_folder import logs_folder
from bench.loops import run
from bench.processes import cpu_seconds
from bench.town import Town, open_town
from tests.stack import Process, Stack

PROFILED = ("gateway", "agent_worker")
SESSIONS = 64
BATCH = 320
SHOWN = 25


class ProfiledStack(Stack):
    """A stack whose gateway and workers sample themselves."""

    @classmethod
    def like(cls, stack: Stack) -> "ProfiledStack":
        """The same, ended with the other one, for they share their list of processes."""
        return cls(stack.folder, stack.database_url, stack.redis_url, stack.config, stack.environment, stack.processes)

    def start(self, name: str, module: str = "", **environment: str) -> Process:
        """See ``Stack.start``."""
        if module or name not in PROFILED:
            return super().start(name, module, **environment)
        return self.launch(name, ["bench.profiled_service", name, str(self._samples(name))], environment)

    def _samples(self, name: str) -> Path:
        return self.folder / f"{name}-{len(self.processes)}.samples.json"

    def seen(self, name: str) -> Samples:
        """What all processes of this name saw together, when they have ended."""
        files = self.folder.glob(f"{name}-*.samples.json")
        return added(Samples(**orjson.loads(file.read_bytes())) for file in files)


async def load_and_sample(
    town: Town,
    stack: ProfiledStack,
    seconds: float,
    *,
    workers: int = 1,
    sessions: int = SESSIONS,
    latency_ms: int = 0,
) -> dict[str, float]:
    """Load it for so long; milliseconds of CPU for a run by service. The processes have ended when this returns.

    Raises ``RuntimeError`` when a reply was wrong.
    """
    town.have_workers(workers)
    await warm_up(town, 200)
    town.tidy_up()
    processes = [process for process in stack.processes if process.name in PROFILED]
    for process in processes:
        process.popen.send_signal(signal.SIGUSR1)
    before = _used(processes)
    runs, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        senders = seeded(town, conversations_for(sessions, BATCH))
        tally = await closed_loop(
            town.gate, senders, sessions=sessions, runs=BATCH, latency_ms=latency_ms, tokens=town.tokens
        )
        if tally.wrong:
            raise RuntimeError(f"a reply was wrong: {tally.wrong[0]}")
        runs += BATCH
    used = _used(processes)
    for process in processes:
        process.stop()
    return {name: 1000 * (spent - before[name]) / runs for name, spent in used.items()}


def _used(processes: Sequence[Process]) -> dict[str, float]:
    used: dict[str, float] = {}
    for process in processes:
        used[process.name] = used.get(process.name, 0.0) + cpu_seconds(process.popen.pid)
    return used


def main(words: Sequence[str]) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="bench-profile", description="Where gateway and worker spend their CPU.")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the load lasts")
    parser.add_argument("--latency-ms", type=int, default=0, help="how long an answer of the model takes, in 10 pieces")
    parser.add_argument("--workers", type=int, default=1, help="how many workers")
    parser.add_argument("--sessions", type=int, default=SESSIONS, help="how many messages are under way at a time")
    parser.add_argument("--shown", type=int, default=SHOWN, help="how many functions of each")
    asked = parser.parse_args(words)
    with logs_folder("profile") as logs, open_town(logs.path, make_stack=ProfiledStack.like) as town:
        stack = town.stack
        assert isinstance(stack, ProfiledStack)  # noqa: S101 - for the type checker
        load = load_and_sample(
            town, stack, asked.seconds, workers=asked.workers, sessions=asked.sessions, latency_ms=asked.latency_ms
        )
        spent = run(load)
        for name in PROFILED:
            sys.stdout.write("\n".join(tables(name, stack.seen(name), spent[name], most=asked.shown)) + "\n\n")
        logs.was_right = True
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
