"""``make soak MINUTES=20``: a mixed load on a Lucyd of its own, and whether anything grows that should not.

Times that keep things are short here (about two minutes), so that what comes and what goes are even soon after the
start. Exit code 1 when a reply was wrong, or a series that must be flat grows.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import psycopg
import redis

from bench.letterbox import open_letterbox
from bench.logs_folder import logs_folder
from bench.loops import run
from bench.machine import describe_machine, load_average
from bench.out_folder import OUT, keep
from bench.soak_load import SoakLoad
from bench.soak_verdicts import Judged, judge, table
from bench.town import Town, open_town
from bench.vital_signs import Chart, sample
from shared.adapters.redis.queues import open_queues
from tests.stack import free_port

WORKERS = 2
SHORT_WARM_UP = 0.4
"""Of a short soak, that share of it is the warm-up; of a long one, ``WARM_UP`` seconds."""

WARM_UP = 330.0
SETTLED_AFTER = 180.0
"""Seconds until as much goes as comes. A soak whose warm-up is shorter judges replies only."""


_TOML = """
callback_url = "http://127.0.0.1:{receiver}/"

[behavior]
api_retry_base_delay = 0.2

[behavior.compaction]
threshold_tokens = 9000
verify_enabled = false

[worker]
history_cache_bytes = 4000000

[run]
result_ttl_seconds = 120
stream_ttl_seconds = 120

[retention]
idempotency_hours = 0.033
streams_hours = 0.033
events_days = 0.0014
runs_days = 0.0014
deliveries_days = 0.0014
"""


async def _soak(town: Town, receiver: int, asked: argparse.Namespace) -> int:
    minutes, seconds = asked.minutes, 60.0 * asked.minutes
    warm_up = min(WARM_UP, SHORT_WARM_UP * seconds)
    chart, out = Chart(), asked.out
    machine = describe_machine(town.stack.database_url, town.stack.redis_url)
    machine["load_average_at_start"] = load_average()
    (town.stack.workspace / "soak.txt").write_text("A line.\n", "utf-8")
    async with open_queues(town.stack.redis_url) as queues, open_letterbox(receiver) as posted:
        load = SoakLoad(town.gate, town.tokens, queues, seed=asked.seed)
        began = time.monotonic()
        going = asyncio.create_task(load.go(until=began + seconds, rate=asked.rate))
        runs_before = 0
        with (
            psycopg.connect(town.stack.database_url, autocommit=True, application_name="soak") as connection,
            redis.Redis.from_url(town.stack.redis_url) as client,
        ):
            while (at := time.monotonic() - began) < seconds and not going.done():
                chart.note(await asyncio.to_thread(sample, town, connection, client))
                runs_before = load.runs if at < warm_up else runs_before
                town.check_alive()
                await asyncio.sleep(max(0.0, asked.every - (time.monotonic() - began - at)))
        await going
    judged = judge(chart.series, warm_up=warm_up, settled=warm_up >= SETTLED_AFTER)
    machine["load_average_at_end"] = load_average()
    told = {
        "minutes": minutes,
        "rate": asked.rate,
        "warm_up_s": warm_up,
        "runs": load.runs,
        "acts": load.acts,
        "held_back": load.held_back,
        "refused": load.refused,
        "webhooks_received": posted.count,
        "wrong": load.wrong_count,
        "wrong_first": load.wrong,
        "series": {each.name: {**asdict(each.trend), "verdict": each.verdict} for each in judged},
        "grows": [each.name for each in judged if each.verdict == "grows"],
        "machine": machine,
        "samples": chart.series,
    }
    file = keep(out, "soak", told)
    settled = max(1.0, seconds - warm_up)
    say(table(judged, runs=load.runs - runs_before, seconds=settled))
    say(f"\n{load.runs} runs in {minutes:g} minutes, {posted.count} webhooks; judged from {warm_up:.0f} s on; {file}")
    return _conclude(load, judged)


def _conclude(load: SoakLoad, judged: Sequence[Judged]) -> int:
    for sentence in load.wrong[:20]:
        say(f"wrong: {sentence}")
    grows = [each.name for each in judged if each.verdict == "grows"]
    if load.wrong_count:
        say(f"{load.wrong_count} replies were wrong or missing")
    if load.refused:
        say(f"{load.refused} were told to come later (429, 503)")
    if load.held_back:
        say(f"{load.held_back} acts were not begun: too many were under way")
    say(f"grows: {', '.join(grows)}" if grows else "nothing grows that should not")
    return 1 if grows or load.wrong_count else 0


def say(text: str) -> None:
    """Tell the person in front."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(words: Sequence[str]) -> int:
    """Soak; 0 when nothing grows that should not and every reply was right."""
    parser = argparse.ArgumentParser(prog="soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0, help="how long the load lasts")
    parser.add_argument("--rate", type=float, default=25.0, help="acts a second")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two samples")
    parser.add_argument("--seed", type=int, default=1, help="the same acts in the same order")
    parser.add_argument("--out", type=Path, default=OUT, help="where soak.json goes")
    asked = parser.parse_args(words)
    asked.out.mkdir(parents=True, exist_ok=True)
    receiver = free_port()
    with logs_folder("soak") as logs:
        try:
            with open_town(logs.path, more_toml=_TOML.format(receiver=receiver), model="bench.soak_model") as town:
                town.have_workers(WORKERS)
                code = run(_soak(town, receiver, asked))
        except RuntimeError as fault:
            say(f"soak: {fault}")
            code = 1
        logs.was_right = code == 0
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
