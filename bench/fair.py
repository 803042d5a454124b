"""Fairness: how long another key's message takes to the model while one key floods. ``python -m bench.fair``.

A thousand messages of one key over 200 conversations, posted within five seconds, against a model of 0.2 s; beside
them, ten times a second, a message of another key. Measured is accept -> model of the latter, alone and beside the
flood. The slots are chosen so that the processors are not full: without a free processor everybody waits, and no order
of slots helps.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import orjson
import psycopg

from bench.cells import Result, seeded, warm_up
from bench.figures import spread
from bench.load import Tally, ask
from bench.logs_folder import logs_folder
from bench.loops import run
from bench.plan import SLOW_MS
from bench.processes import machine_busy, used_between
from bench.town import Town, open_town
from bench.watching import ModelNotes, Receipt, accepted_at
from bench.wire import Mark, reply_text
from tests.stack import PROJECT

WORKERS = 2
SLOTS = 16
CONVERSATIONS = 200
MESSAGES = 1000
POSTED_PER_S = 200
"""Faster, and accepting alone would fill two processors for its while."""

TRIES = 5
OTHERS = 100
OTHERS_PAUSE_MS = 100
FEW_MS = 50.0
"""What another key may wait in any case; else twice of what it waits alone."""

MOST_CPU = 0.7
ENDED_WITHIN = 60.0

_OPEN = "select count(*) from runs where id = any(%s::uuid[]) and finished_at is null"
_REPLIES = "select id::text, outcome ->> 'reply' from runs where id = any(%s::uuid[])"


async def measure_fairness(town: Town) -> Result:
    """Alone, then beside the flood; ``holds`` says whether the promise is kept where the processors were not full."""
    await warm_up(town, 40)
    senders = seeded(town, CONVERSATIONS)
    town.tidy_up()
    tally, notes = Tally(), ModelNotes(town.model_url)
    idle, wrong = await _others(town, notes, "idle")
    before, busy_before, began = town.cpu(), machine_busy(), time.monotonic()
    flood = asyncio.create_task(_flood(town, senders, tally))
    beside, more_wrong = await _others(town, notes, "flow")
    seconds, busy = time.monotonic() - began, machine_busy() - busy_before
    used = sum(used_between(before, town.cpu()).values())
    is_over = flood.done()
    await flood
    town.check_alive()
    limit = max(2 * spread(idle)["p99"], FEW_MS)
    figures: dict[str, Any] = {
        "alone_ms": spread(idle),
        "beside_ms": spread(beside),
        "limit_ms": limit,
        "cpu_share": used / seconds / _cores(),
        "machine_busy": busy / seconds / _cores(),
        "flood_runs_per_s": len(tally.asks) / tally.seconds if tally.asks else 0.0,
    }
    figures["holds"] = float(figures["beside_ms"]["p99"] <= limit)
    missing = MESSAGES - len(tally.asks) - len(tally.wrong)
    wrong += [*more_wrong, *tally.wrong, *([f"{missing} messages had no end"] if missing else [])]
    if is_over:
        wrong.append("the flood was over before the other key had said everything")
    return Result("fairness", figures, wrong, {"alone_ms": idle, "beside_ms": beside})


def lines_of(result: Result) -> Sequence[str]:
    """What was found, for people."""
    if not result.figures:
        return result.wrong
    alone, beside, told = result.figures["alone_ms"], result.figures["beside_ms"], result.figures
    verdict = "holds" if told["holds"] else "DOES NOT HOLD"
    if told["machine_busy"] > MOST_CPU:
        verdict += f", but the processors were {told['machine_busy']:.0%} busy: that says little"
    return [
        f"accept -> model of another key, ms:   alone p50 {alone['p50']:.1f} p99 {alone['p99']:.1f};"
        f"   beside the flood p50 {beside['p50']:.1f} p99 {beside['p99']:.1f}",
        f"promised: p99 <= {told['limit_ms']:.1f} ms: {verdict}",
        f"the flood: {told['flood_runs_per_s']:.0f} runs/s; processors: {told['cpu_share']:.0%} ours and the bench's, "
        f"{told['machine_busy']:.0%} in all",
        *result.wrong[:10],
    ]


async def _flood(town: Town, senders: Sequence[str], tally: Tally) -> None:
    """Every message is sent at its moment, whatever became of those before it."""

    async def say(number: int) -> None:
        await asyncio.sleep(number / POSTED_PER_S)
        mark, sender = Mark(town.tokens.next(), SLOW_MS, SLOW_MS), senders[number % len(senders)]
        for _ in range(TRIES):
            once = Tally()
            async with town.gate.line() as line:
                await ask(line, sender, mark, once)
            if once.asks or "status 503" not in once.wrong[0]:
                break
            await asyncio.sleep(1)  # the machine is slow, and the gateway has said so
        tally.asks += once.asks
        tally.wrong += once.wrong

    await asyncio.gather(*map(say, range(MESSAGES)))


async def _others(town: Town, notes: ModelNotes, prefix: str) -> tuple[list[float], list[str]]:
    """Milliseconds from accept to model of each message of the other key, and a sentence for each wrong reply."""
    await notes.take()
    words = {
        "--database": town.stack.database_url, "--redis": town.stack.redis_url, "--prefix": prefix,
        "--count": OTHERS, "--pause-ms": OTHERS_PAUSE_MS, "--latency-ms": SLOW_MS,
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bench.second_door", *(str(part) for pair in words.items() for part in pair)),
        cwd=PROJECT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the second door ended with {process.returncode}")
    sent = [(str(token), str(run_id)) for token, run_id in orjson.loads(told)]
    runs = [run_id for _, run_id in sent]
    await _until_ended(town, runs)
    heard: dict[str, Receipt] = {}
    for receipt in await notes.take():
        heard.setdefault(receipt.token, receipt)
    accepted = accepted_at(town.stack.database_url, runs)
    with psycopg.connect(town.stack.database_url) as connection:
        replies: dict[str, str] = dict(connection.execute(_REPLIES, [runs]).fetchall())
    wrong = [f"{token}: {replies[each]!r}" for token, each in sent if replies[each] != reply_text(token)]
    return [(heard[token].wall - accepted[each]) / 1e6 for token, each in sent if token in heard], wrong


async def _until_ended(town: Town, runs: Sequence[str]) -> None:
    end = time.monotonic() + ENDED_WITHIN
    with psycopg.connect(town.stack.database_url, autocommit=True) as connection:
        while connection.execute(_OPEN, [runs]).fetchone() != (0,):
            if time.monotonic() > end:
                raise RuntimeError(f"messages of the other key had no end in {ENDED_WITHIN:g} s")
            await asyncio.sleep(0.1)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def main(words: Sequence[str]) -> int:
    """Measure; 0 when every reply was right, whatever the figures say."""
    parser = argparse.ArgumentParser(prog="bench-fair", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--slots", type=int, default=SLOTS, help="slots of each worker")
    parser.add_argument("--workers", type=int, default=WORKERS, help="how many workers")
    parser.add_argument("--window", type=float, default=0.5, help="the part of the slots that one key may hold")
    asked = parser.parse_args(words)
    more = f"[worker]\nslots = {asked.slots}\n[fairness]\nwindow = {asked.window}\n"
    with logs_folder("fair") as logs:
        with open_town(logs.path, more_toml=more) as town:
            town.have_workers(asked.workers)
            result = run(measure_fairness(town))
        logs.was_right = not result.wrong
    sys.stdout.write("\n".join(lines_of(result)) + "\n")
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
