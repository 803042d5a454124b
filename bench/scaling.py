"""``python -m bench.scaling``: whether more workers do more, and never less, at the saturated load.

1, 2 and 4 workers in turn, several rounds on one Lucyd: a model of 0.2 s, 200 sessions. In each round 2 and 4 come
twice, there and back, so that a machine that becomes faster or slower meanwhile does it for both; each time for half a
minute and more, for what is asked is which is faster in the long run, and surplus workers stand back after seconds.
Prints runs per second with the CPU of a run, and 4 workers against 2 within each round.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence

from bench.cells import measure_cell, warm_up
from bench.logs_folder import logs_folder
from bench.loops import run
from bench.out_folder import OUT, keep
from bench.plan import MOST_SESSIONS, SLOW_MS, Cell
from bench.town import Town, open_town

IN_TURN = (1, 2, 4, 4, 2)
RUNS = 12_000
WARM_UP = 300
"""Runs for each worker: a round begins some of them anew, and Postgres plans a statement anew for the first five times
on each of a worker's connections."""


Found = dict[str, list[list[dict[str, float]]]]
"""For each number of workers, for each round: runs per second and milliseconds of CPU a run, each time it came."""


async def measure_workers(town: Town, *, rounds: int, runs: int) -> Found:
    """Measure. Raises ``RuntimeError`` when a reply was wrong."""
    found: Found = {str(workers): [] for workers in IN_TURN}
    for _ in range(rounds):
        for each in found.values():
            each.append([])
        for workers in IN_TURN:
            town.have_workers(workers)
            await warm_up(town, WARM_UP * workers)
            town.tidy_up()
            result = await measure_cell(town, Cell(workers, MOST_SESSIONS, SLOW_MS, runs))
            if result.wrong:
                raise RuntimeError(result.wrong[0])
            used = result.figures["cpu_ms_per_run"]
            cpu = sum(spent for name, spent in used.items() if name not in ("load", "model_server"))
            found[str(workers)][-1].append({"runs_per_s": result.figures["runs_per_s"], "cpu_ms": cpu})
    return found


def told(found: Found) -> str:
    """The table, and the last line: 4 against 2 workers, round by round."""
    lines = []
    for workers, rounds in found.items():
        measures = [each for times in rounds for each in times]
        rate = statistics.mean(each["runs_per_s"] for each in measures)
        cpu = statistics.mean(each["cpu_ms"] for each in measures)
        shown = " ".join(f"{each['runs_per_s']:.0f}" for each in measures)
        lines.append(f"{workers} workers   {rate:6.1f} runs/s   {cpu:5.2f} ms a run   ({shown})")
    ratios = [_rate(fours) / _rate(twos) for twos, fours in zip(found["2"], found["4"], strict=True)]
    shown = " ".join(f"{ratio:.2f}" for ratio in ratios)
    lines.append(f"4 against 2 workers: {statistics.mean(ratios):.2f} ({shown})")
    return "\n".join(lines)


def _rate(times: Sequence[dict[str, float]]) -> float:
    return statistics.mean(each["runs_per_s"] for each in times)


def main(words: Sequence[str]) -> int:
    """Measure and print; 1 when a reply was wrong."""
    parser = argparse.ArgumentParser(prog="bench.scaling", description="More workers, more runs a second?")
    parser.add_argument("--rounds", type=int, default=3, help="how often it begins anew")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each measure")
    asked = parser.parse_args(words)
    with logs_folder("scaling") as logs:
        try:
            with open_town(logs.path, "openai") as town:
                found = run(measure_workers(town, rounds=asked.rounds, runs=asked.runs))
        except RuntimeError as fault:
            sys.stderr.write(f"bench: {fault}\n")
            return 1
        logs.was_right = True
    keep(OUT, "scaling", found)
    sys.stdout.write(told(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
