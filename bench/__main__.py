"""``python -m bench``: fixed work on a Lucyd of its own, the table printed, ``bench/out/bench.json`` written.

``--quick`` does little work and each thing once: it shows that everything runs, not how fast. Exit code 1 when any
reply was wrong or missing.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.cells import Result, measure_at_rate, measure_cell, measure_stream, warm_up
from bench.floor import measure_floor
from bench.indexing import indexing
from bench.load import RUNS_PER_CONVERSATION
from bench.logs_folder import logs_folder
from bench.loops import run
from bench.machine import describe_machine, load_average
from bench.memory import measure_memory
from bench.out_folder import OUT, clear, keep
from bench.personality import FIRST_LENGTH, length_for, measure_request, write_personality
from bench.plan import MOST_SESSIONS, SLOW_MS, Cell, Plan, full_plan, quick_plan
from bench.report import Figures, summary, table
from bench.takeover import measure_takeover
from bench.town import Town, open_town
from bench.watching import ModelNotes
from bench.wire import MESSAGE_BYTES


class Bench:
    """One bench in a town that is open."""

    def __init__(self, town: Town, plan: Plan, out: Path) -> None:
        self._town = town
        self._plan = plan
        self._out = out
        self._began = time.monotonic()
        self.wrong: list[str] = []

    async def prepare(self) -> dict[str, int]:
        """Make the system prompt as long as was chosen; what the model is really shown then."""
        self._town.have_workers(1)
        await warm_up(self._town, 5)
        shown, _ = await self._request()
        write_personality(self._town.stack.workspace, length_for(shown, FIRST_LENGTH))
        await warm_up(self._town, 5)
        shown, history = await self._request()
        mean = history + RUNS_PER_CONVERSATION - 1  # each run of a conversation finds two messages more
        return {"system_prompt_bytes": shown, "history_messages_on_average": mean, "message_bytes": MESSAGE_BYTES}

    async def measure(self) -> Sequence[Figures]:
        """All repeats that the budget has room for, at least one."""
        repeats: list[Figures] = []
        for number in range(1, self._plan.repeats + 1):
            began = time.monotonic()
            repeats.append(await self._repeat(number))
            took = time.monotonic() - began
            if time.monotonic() - self._began + took > self._plan.budget and number < self._plan.repeats:
                say(f"the machine is slow: {number} of {self._plan.repeats} repeats fit into {self._plan.budget:g} s")
                break
        return repeats

    async def _repeat(self, number: int) -> Figures:
        found: dict[str, dict[str, Any]] = {}
        plan, town = self._plan, self._town

        def note(result: Result) -> None:
            found[result.name] = result.figures
            self.wrong += [f"{result.name}: {sentence}" for sentence in result.wrong]
            raw = {"figures": result.figures, "samples": result.samples, "wrong": result.wrong}
            keep(self._out, f"raw-{result.name}-r{number}", raw)
            say(f"{time.monotonic() - self._began:5.0f} s   repeat {number}: {_headline(result)}")

        for workers in plan.workers:
            town.have_workers(workers)
            await warm_up(town, plan.warm_up)
            town.tidy_up()
            for cell in plan.cells:
                if cell.workers == workers:
                    note(await measure_cell(town, cell))
            if workers == plan.headline:
                note(await self._floor())  # beside the cell it is compared with, for the machine changes its mind
            saturated = found[Cell(workers, MOST_SESSIONS, SLOW_MS, 0).name]
            rate = saturated.get("runs_per_s", 2.0) / 2
            note(await measure_at_rate(town, workers=workers, rate=rate, runs=plan.half_load, seed=number))
            if workers == plan.headline:
                note(await measure_stream(town, plan.streamed))
        town.have_workers(0)
        town.open_anew()
        town.have_workers(plan.headline)
        note(await measure_memory(town, conversations=plan.open_conversations, warm_up_runs=plan.warm_up))
        for other_host in (False, True):
            town.have_workers(plan.headline)
            await warm_up(town, plan.warm_up)
            note(await measure_takeover(town, in_hand=plan.in_hand, other_host=other_host))
        return found

    async def _floor(self) -> Result:
        stack, runs = self._town.stack, self._plan.floor
        rate = await measure_floor(stack.database_url, stack.redis_url, runs=runs, at_once=MOST_SESSIONS)
        return Result("floor", {"runs_per_s": rate})

    async def _request(self) -> tuple[int, int]:
        return measure_request(self._town.wire, await ModelNotes(self._town.model_url).last_request())


def say(line: str) -> None:
    """Tell the person in front what was just done."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _headline(result: Result) -> str:
    figures = dict(_numbers(result.figures))
    known = ("runs_per_s", "takeover_s.p50", "stream_hop_ms.p50", "kb_per_open_conversation")
    shown = [f"{name} {figures[name]:.2f}" for name in known if name in figures]
    return " ".join([f"{result.name:<22}", *shown, *([f"{len(result.wrong)} WRONG"] if result.wrong else [])])


def _numbers(tree: dict[str, Any], before: str = "") -> Iterator[tuple[str, float]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _numbers(value, f"{before}{name}.")
        else:
            yield before + name, value


async def _bench(town: Town, plan: Plan, asked: argparse.Namespace) -> int:
    machine = describe_machine(town.stack.database_url, town.stack.redis_url)
    machine["load_average_at_start"] = load_average()
    out: Path = asked.out
    bench = Bench(town, plan, out)
    shown = await bench.prepare()
    async with indexing(town, on=asked.indexing):
        repeats = await bench.measure()
    machine["load_average_at_end"] = load_average()
    if bench.wrong:
        keep(out, "wrong", bench.wrong)
        for sentence in bench.wrong[:20]:
            say(f"wrong: {sentence}")
        say(f"{len(bench.wrong)} replies were wrong or missing: the figures count for nothing and are not kept")
        return 1
    circumstances = {"indexing": "on" if asked.indexing else "off", "quick": asked.quick, "wire": town.wire}
    told = {**summary(plan, repeats), **circumstances, "shown": shown, "machine": machine}
    keep(out, "bench", told)
    sys.stdout.write(f"{table(plan, told)}\n{_foot(machine)}\n")
    return 0


def _foot(machine: dict[str, Any]) -> str:
    began, ended = machine["load_average_at_start"][0], machine["load_average_at_end"][0]
    return (
        f"\n{machine['cores']} x {machine['cpu']}; Postgres {machine['postgres']}, {machine['redis']}, "
        f"Python {machine['python']}, commit {machine['commit']}; load average {began} at the start, {ended} at the end"
    )


def main(words: Sequence[str]) -> int:
    """Measure; 0 when every reply was right."""
    parser = argparse.ArgumentParser(prog="bench", description="Fixed work on a Lucyd of its own: how fast it is.")
    parser.add_argument("--quick", action="store_true", help="little work, once: whether it all runs")
    parser.add_argument("--indexing", action="store_true", help="let the indexer work beside the load")
    parser.add_argument("--wire", choices=["openai", "anthropic"], default="openai", help="the model server's wire")
    parser.add_argument("--out", type=Path, default=OUT, help="where bench.json and the raw data go")
    asked = parser.parse_args(words)
    plan = quick_plan() if asked.quick else full_plan()
    clear(asked.out)
    with logs_folder("bench") as logs:
        try:
            with open_town(logs.path, asked.wire) as town:
                code = run(_bench(town, plan, asked))
        except RuntimeError as fault:
            say(f"bench: {fault}")
            code = 1
        logs.was_right = code == 0
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
