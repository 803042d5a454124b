"""``python -m bench.scaling``: whether more workers do more, and never less, at the saturated load.

1, 2 and 4 workers in turn, several rounds on one Lucyd, so that a machine that changes its mind changes it for all:
a model of 0.2 s, 200 sessions. Prints runs per second with the CPU of a run, and 4 workers against 2 within each round.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence

from bench.cells import measure_cell, warm_up
from bench.logs_folder import logs_folder
from bench.loops import run
from bench.out_folder import OUT, keep
from bench.plan import MOST_SESSIONS, SLOW_MS, WORKERS, Cell
from bench.town import Town, open_town

RUNS = 2400
WARM_UP = 300
"""Runs for each worker: a round begins some of them anew, and Postgres plans a statement anew for the first five times
on each of a worker's connections."""


async def measure_workers(town: Town, *, rounds: int) -> dict[str, list[dict[str, float]]]:
    """For each number of workers one measure a round. Raises ``RuntimeError`` when a reply was wrong."""
    found: dict[str, list[dict[str, float]]] = {str(workers): [] for workers in WORKERS}
    for _ in range(rounds):
        for workers in WORKERS:
            town.have_workers(workers)
            await warm_up(town, WARM_UP * workers)
            town.tidy_up()
            result = await measure_cell(town, Cell(workers, MOST_SESSIONS, SLOW_MS, RUNS))
            if result.wrong:
                raise RuntimeError(result.wrong[0])
            used = result.figures["cpu_ms_per_run"]
            cpu = sum(spent for name, spent in used.items() if name not in ("load", "model_server"))
            found[str(workers)].append({"runs_per_s": result.figures["runs_per_s"], "cpu_ms": cpu})
    return found


def told(found: dict[str, list[dict[str, float]]]) -> str:
    """The table, and the last line: 4 against 2 workers, round by round."""
    lines = []
    for workers, rounds in found.items():
        rates = [each["runs_per_s"] for each in rounds]
        cpu = statistics.median(each["cpu_ms"] for each in rounds)
        shown = " ".join(f"{rate:.0f}" for rate in rates)
        lines.append(f"{workers} workers   {statistics.median(rates):6.1f} runs/s   {cpu:5.2f} ms a run   ({shown})")
    ratios = [four["runs_per_s"] / two["runs_per_s"] for two, four in zip(found["2"], found["4"], strict=True)]
    shown = " ".join(f"{ratio:.2f}" for ratio in ratios)
    lines.append(f"4 against 2 workers: {statistics.median(ratios):.2f} ({shown})")
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """Measure and print; 1 when a reply was wrong."""
    parser = argparse.ArgumentParser(prog="bench.scaling", description="More workers, more runs a second?")
    parser.add_argument("--rounds", type=int, default=5, help="how often each number of workers is measured")
    asked = parser.parse_args(words)
    with logs_folder("scaling") as logs:
        try:
            with open_town(logs.path, "openai") as town:
                found = run(measure_workers(town, rounds=asked.rounds))
        except RuntimeError as fault:
            sys.stderr.write(f"bench: {fault}\n")
            return 1
        logs.was_right = True
    keep(OUT, "scaling", found)
    sys.stdout.write(told(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
