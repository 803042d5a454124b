"""``python -m bench.scaling``: whether more workers do more, and never less, at the saturated load.

One load without a break, a model of 0.2 s and 200 sessions, while workers come and go: 1, then 2 and 4 in turn. A
machine that becomes faster or slower within minutes does so for both, and each time with 4 is compared with those with
2 before and behind it. What is asked is how it is in the long run, so the first seconds after each change do not count:
processes start then, and surplus workers need some until they stand back.
"""

import argparse
import asyncio
import contextlib
import statistics
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from bench.history import seed_conversations
from bench.http_line import HttpLine
from bench.load import RUNS_PER_CONVERSATION, Tally, ask
from bench.logs_folder import logs_folder
from bench.loops import run
from bench.out_folder import OUT, keep
from bench.plan import MOST_SESSIONS, SLOW_MS
from bench.processes import used_between
from bench.town import Town, open_town
from bench.wire import Mark

SETTLES = 8.0
LASTS = 20.0
"""Seconds of each measure, and of what is not measured before it."""

MOST_A_SECOND = 600
"""Runs, for which conversations are made beforehand."""

HARNESS = ("load", "model_server")


@dataclass(frozen=True, slots=True)
class Measure:
    """Runs per second with so many workers, and milliseconds of CPU for a run: of Lucyd with its servers, and of the
    load with the model server, whose work for a run is always the same."""

    workers: int
    runs_per_s: float
    cpu_ms: float
    harness_ms: float


class Load:
    """Sessions that ask without a break."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self._senders: deque[str] = deque()
        self.tally = Tally()

    async def provide(self, seconds: float) -> None:
        """Make the conversations that are needed for so long."""
        lacking = round(seconds * MOST_A_SECOND / RUNS_PER_CONVERSATION) + MOST_SESSIONS - len(self._senders)
        if lacking > 0:
            senders = self._town.sender_names(lacking)
            await asyncio.to_thread(seed_conversations, self._town.stack.database_url, senders)
            self._senders.extend(senders)

    @contextlib.asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Ask until the block ends."""
        async with contextlib.AsyncExitStack() as stack:
            lines = [await stack.enter_async_context(self._town.gate.line()) for _ in range(MOST_SESSIONS)]
            sessions = [asyncio.create_task(self._session(line)) for line in lines]
            try:
                yield
            finally:
                for session in sessions:
                    session.cancel()
                await asyncio.gather(*sessions, return_exceptions=True)

    async def _session(self, line: HttpLine) -> None:
        while True:
            sender = self._senders.popleft()
            for _ in range(RUNS_PER_CONVERSATION):
                await ask(line, sender, Mark(self._town.tokens.next(), SLOW_MS, SLOW_MS), self.tally)


async def measure_workers(town: Town, *, rounds: int) -> list[Measure]:
    """One measure with one worker, then 2 and 4 in turn, beginning and ending with 2.

    Raises ``RuntimeError`` when a reply was wrong.
    """
    found: list[Measure] = []
    load = Load(town)
    town.have_workers(1)
    await load.provide(SETTLES + LASTS)
    async with load.going_on():
        for workers in (1, *(2, 4) * rounds, 2):
            await asyncio.to_thread(town.have_workers, workers)
            await load.provide(SETTLES + LASTS + 10)
            await asyncio.sleep(SETTLES)
            found.append(await _measure(town, load, workers))
            if load.tally.wrong:
                raise RuntimeError(load.tally.wrong[0])
    town.check_alive()
    return found


async def _measure(town: Town, load: Load, workers: int) -> Measure:
    loop = asyncio.get_running_loop()
    began, done, cpu = loop.time(), len(load.tally.asks), town.cpu()
    await asyncio.sleep(LASTS)
    runs, seconds, used = len(load.tally.asks) - done, loop.time() - began, used_between(cpu, town.cpu())
    harness = sum(spent for name, spent in used.items() if name in HARNESS)
    return Measure(workers, runs / seconds, 1000 * (sum(used.values()) - harness) / runs, 1000 * harness / runs)


def told(found: Sequence[Measure]) -> str:
    """The table, and the last line: each time with 4 workers against those with 2 beside it."""
    lines = []
    for workers in sorted({each.workers for each in found}):
        those = [each for each in found if each.workers == workers]
        rate, cpu = statistics.mean(each.runs_per_s for each in those), statistics.mean(each.cpu_ms for each in those)
        shown = " ".join(f"{each.runs_per_s:.0f}" for each in those)
        lines.append(f"{workers} workers   {rate:6.1f} runs/s   {cpu:5.2f} ms a run   ({shown})")
    ratios = against_neighbours([each for each in found if each.workers > 1])
    shown = " ".join(f"{ratio:.2f}" for ratio in ratios)
    doubt = statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else float("nan")
    lines.append(f"4 against 2 workers: {statistics.mean(ratios):.3f} +- {doubt:.3f} ({shown})")
    return "\n".join(lines)


def against_neighbours(found: Sequence[Measure]) -> list[float]:
    """Each time with 4 workers against the mean of the two with 2 around it."""
    pairs = list(pairwise(found))
    return [
        four.runs_per_s / statistics.mean((before.runs_per_s, behind.runs_per_s))
        for (before, four), (_, behind) in zip(pairs[::2], pairs[1::2], strict=True)
    ]


def main(words: Sequence[str]) -> int:
    """Measure and print; 1 when a reply was wrong."""
    parser = argparse.ArgumentParser(prog="bench.scaling", description="More workers, more runs a second?")
    parser.add_argument("--rounds", type=int, default=6, help="how often 4 workers are measured")
    asked = parser.parse_args(words)
    with logs_folder("scaling") as logs:
        try:
            with open_town(logs.path, "openai") as town:
                found = run(measure_workers(town, rounds=asked.rounds))
        except RuntimeError as fault:
            sys.stderr.write(f"bench: {fault}\n")
            return 1
        logs.was_right = True
    keep(OUT, "scaling", [asdict(each) for each in found])
    sys.stdout.write(told(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
