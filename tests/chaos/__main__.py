"""Real processes, a seeded load, seeded faults, and a checker: ``python -m tests.chaos --seed 1 --minutes 1``.

The plan follows from the seed; how the processes interleave does not. Exit code 1 when a promise was not kept: then the
folder with all logs stays and is named.
"""

import argparse
import asyncio
import contextlib
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import psycopg

from deploy.local.servers import open_servers
from shared.adapters.postgres.migrate import migrate
from tests.chaos.checker import check
from tests.chaos.faults import Hit, trouble
from tests.chaos.history import History
from tests.chaos.load import Load
from tests.chaos.plan import plan_asks, plan_faults
from tests.chaos.reading import epochs_of, is_idle, read_acts, read_streams, read_tables
from tests.chaos.report import tell
from tests.chaos.scripts import Scripts
from tests.chaos.town import Town, wait_for
from tests.scripted_model_server import ScriptedModelServer
from tests.stack import model_toml, open_stack

CALMS_WITHIN = 90.0
"""Seconds for which clients try, and in which everything must have ended after the last fault."""


def main(words: Sequence[str]) -> int:
    """Run once and print the report."""
    parser = argparse.ArgumentParser(
        prog="chaos", description="Break a running Lucyd on purpose and check what it promises."
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1.0)
    asked = parser.parse_args(words)
    folder = Path(tempfile.mkdtemp(prefix="lucyd-chaos-"))
    hits, history = _live(folder, asked.seed, asked.minutes * 60)
    found = check(history)
    print(tell(asked.seed, asked.minutes * 60, hits, history, found))
    if found:
        print(f"the logs of all processes are in {folder}")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _live(folder: Path, seed: int, seconds: float) -> tuple[Sequence[Hit], History]:
    acts = folder / "acts.log"
    scripts = Scripts(acts)
    model = ScriptedModelServer(default=scripts, chunks=20, chunk_interval=0.1)
    with open_servers(folder / "servers") as servers, model.in_thread():
        migrate(servers.database_url)
        toml = model_toml("anthropic", model.base_url("anthropic"))
        with open_stack(folder / "stack", servers.database_url, servers.redis_url, toml) as stack:
            (stack.workspace / "notes.txt").write_text("what is noted", "utf-8")
            town = Town(stack, servers, folder)
            town.open()
            hits, seen = asyncio.run(_observe(town, seed, seconds))
            broken = (*seen.crashes, *town.broken_runs())
            return hits, replace(
                seen, calls=dict(model.calls), billed=dict(scripts.billed), acts=read_acts(acts), crashes=broken
            )


async def _observe(town: Town, seed: int, seconds: float) -> tuple[Sequence[Hit], History]:
    load, epochs = Load(town.gateways, seed, CALMS_WITHIN), defaultdict[str, list[int]](list)
    background = [asyncio.create_task(town.keep()), asyncio.create_task(_watch(town, epochs))]
    try:
        clients = asyncio.create_task(load.run(plan_asks(seed, seconds)))
        hits = await trouble(town, plan_faults(seed, seconds), lambda: load.open, Random(f"victims {seed}"))
        town.wake_all()
        await clients
        await wait_for(lambda: is_idle(town.stack.database_url), CALMS_WITHIN)
    finally:
        for task in background:
            task.cancel()
        ended = await asyncio.gather(*background, return_exceptions=True)
    for fault in ended:
        if not isinstance(fault, asyncio.CancelledError) and isinstance(fault, BaseException):
            raise fault
    history = read_tables(town.stack.database_url)
    return hits, replace(
        history,
        epochs={conversation: tuple(seen) for conversation, seen in epochs.items()},
        streams=read_streams(town.stack.redis_url, history),
        followers=tuple(load.followers),
        answers=tuple(load.answers),
        wipes=tuple(town.wipes),
        crashes=tuple(town.crashes),
    )


async def _watch(town: Town, epochs: dict[str, list[int]]) -> None:
    """Look at the epochs of all conversations twice a second, for ever."""
    while True:
        with contextlib.suppress(psycopg.OperationalError):
            for conversation, epoch in (await asyncio.to_thread(epochs_of, town.stack.database_url)).items():
                epochs[conversation].append(epoch)
        await asyncio.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
