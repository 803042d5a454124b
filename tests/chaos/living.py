"""One chaos run from the first process to the history that the checker reads."""

import asyncio
import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from deploy.local.servers import open_servers
from shared.adapters.postgres.migrate import migrate
from tests.chaos.boundaries import Notes, Whereabouts
from tests.chaos.director import Director, Hit
from tests.chaos.faketime import find_faketime
from tests.chaos.gates import Signals
from tests.chaos.history import Blocked, History
from tests.chaos.load import Load
from tests.chaos.plan import FAULTS, KINDS, SENDERS, plan_asks
from tests.chaos.plants import Plant, plant_edits
from tests.chaos.reading import (
    all_posted,
    epochs_of,
    in_line,
    is_idle,
    read_acts,
    read_inbound,
    read_stamps,
    read_streams,
    read_tables,
)
from tests.chaos.scripts import Scripts
from tests.chaos.table import Table
from tests.chaos.town import Town, wait_for
from tests.scripted_model_server import ScriptedModelServer
from tests.stack import model_toml, open_stack
from tests.webhook_receiver import open_receiver

STARTS_WITHIN = 60.0
STREAMS_SLOWLY, STREAMS_FAST = 0.1, 0.012
"""Seconds between the pieces of an answer: for a planted fault, and where scenes are to follow each other soon."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to do. ``calms_within``: seconds for which clients try, and in which everything must have ended."""

    seed: int
    seconds: float
    calms_within: float = 90.0
    name: str = ""
    plant: Plant | None = None
    planted: bool = True


@dataclass(frozen=True, slots=True)
class Lived:
    """What came of it."""

    hits: Sequence[Hit]
    table: Table
    history: History
    faketime: bool = False


def live(folder: Path, order: Order) -> Lived:
    """Run once; every process has ended when this returns."""
    acts, mono = folder / "acts.log", time.monotonic() - time.time()
    scripts = Scripts(acts, folder / "door")
    interval = STREAMS_SLOWLY if order.plant else STREAMS_FAST
    model = ScriptedModelServer(default=scripts, chunks=20, chunk_interval=interval)
    with open_servers(folder / "servers") as servers, model.in_thread(), open_receiver(200) as receiver:
        migrate(servers.database_url)
        if order.plant is not None and order.planted:
            plant_edits(servers.database_url, order.plant.edits)
        extra = f'[http]\ncallback_url = "{receiver.url}"\ncallback_timeout = 1.0\n'
        extra += f'[tools.exec]\nwrite = ["{folder}"]\n'  # where commands say what they have done
        toml = model_toml("anthropic", model.base_url("anthropic"), extra=extra)
        with open_stack(folder / "stack", servers.database_url, servers.redis_url, toml) as stack:
            (stack.workspace / "notes.txt").write_text("what is noted", "utf-8")
            plant = order.name if order.planted else ""
            town = Town(stack, servers, folder, receiver=receiver, plant=plant, faketime=find_faketime(folder))
            lived = asyncio.run(_observe(town, order, folder, mono))
            history = replace(
                lived.history,
                calls=dict(model.calls),
                billed=dict(scripts.billed),
                spoiled=frozenset(scripts.spoiled),
                acts=read_acts(acts),
                stamps=read_stamps(folder / "stamps.log"),
                posted=Counter(str(each.body.get("run_id")) for each in receiver.received),
                unwoken=town.unwoken_runs(),
                crashes=(*town.crashes, *town.broken_runs()),
            )
            return replace(lived, history=history)


async def _observe(town: Town, order: Order, folder: Path, mono: float) -> Lived:
    signals, notes, epochs = Signals(town.socket), Notes(folder), defaultdict[str, list[int]](list)
    load = Load(town.gateways, order.seed, order.calms_within)
    director = Director(town, load, signals, notes, Table(FAULTS), order.seed, mono)
    await signals.open()
    await town.open()
    background = [asyncio.create_task(town.keep()), asyncio.create_task(_watch(town, epochs))]
    try:
        await wait_for(town.all_started, STARTS_WITHIN)
        kinds, senders = (order.plant.kinds, order.plant.senders) if order.plant else (KINDS, SENDERS)
        clients = asyncio.create_task(load.run(plan_asks(order.seed, kinds, senders)))
        if order.plant is not None:
            hits = await director.provoke(order.plant.aims, order.seconds, order.plant.in_flight)
        else:
            hits = await director.conduct(order.seconds)
        load.over = True
        town.wake_all()
        await clients
        end = time.monotonic() + order.calms_within
        for is_quiet in (
            lambda: is_idle(town.stack.database_url),
            lambda: all_posted(town.stack.database_url),
            lambda: not read_inbound(town.stack.redis_url),
        ):
            await wait_for(is_quiet, max(2.0, end - time.monotonic()))
    finally:
        for task in background:
            task.cancel()
        ended = await asyncio.gather(*background, return_exceptions=True)
        await signals.close()
    for fault in ended:
        if not isinstance(fault, asyncio.CancelledError) and isinstance(fault, BaseException):
            raise fault
    history = read_tables(town.stack.database_url, mono)
    history = replace(
        history,
        epochs={conversation: tuple(seen) for conversation, seen in epochs.items()},
        streams=read_streams(town.stack.redis_url, history),
        inbound=read_inbound(town.stack.redis_url),
        followers=tuple(load.followers),
        answers=tuple(load.answers),
        wipes=tuple(town.wipes),
        notes=tuple(notes.refresh()),
        deaths=dict(town.deaths),
        disturbances=tuple(town.disturbances),
        blocked=tuple(Blocked(*each) for each in signals.blocked),
    )
    await town.close()
    return Lived(hits, _counted(Table(FAULTS), hits, history, director.told), history, town.faketime is not None)


def _counted(table: Table, hits: Sequence[Hit], history: History, told: Mapping[str, float]) -> Table:
    lines = [replace(line, told=min(line.told, told.get(line.run, line.told))) for line in in_line(history)]
    whereabouts = Whereabouts(lines, history.notes, history.deaths)
    for hit in hits:
        if hit.came:
            table.add(hit.fault, whereabouts.at(hit.at))
    return table


async def _watch(town: Town, epochs: dict[str, list[int]]) -> None:
    """Look at the epochs of all conversations twice a second, for ever."""
    while True:
        with contextlib.suppress(psycopg.OperationalError):
            for conversation, epoch in (await asyncio.to_thread(epochs_of, town.stack.database_url)).items():
                epochs[conversation].append(epoch)
        await asyncio.sleep(0.5)
