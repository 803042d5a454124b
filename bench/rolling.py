"""Rolling restarts under load: ``python -m bench.rolling`` (``make bench-restarts``).

The whole stack runs under the launcher, as on anybody's machine. Forty sessions ask over kept-alive connections, some
over streams, and none tries anything twice: what fails has failed. Meanwhile one service after the other is restarted.
Exit code 1 when anything failed, was counted as an attempt or was answered twice.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import orjson
import psycopg

from bench.figures import percentile
from bench.http_line import HttpLine
from bench.logs_folder import logs_folder
from bench.loops import run
from bench.machine import describe_machine, load_average
from bench.out_folder import OUT, keep
from bench.town import model_server
from bench.wire import Mark, message_text, reply_text
from deploy.local.launch import SERVICES
from deploy.local.restart_request import ask_restart
from shared.errors import ConfigError
from tests.stack import PROJECT, free_port, wait_until

SESSIONS = 40
STREAMED = 8
"""Of the sessions, so many ask over streams."""

RUNS_PER_CONVERSATION = 5
LATENCY_MS = 200
PATIENCE = 60.0
READY_WITHIN = 60.0
WARM_UP = 5.0
LONGEST = 900.0
"""Seconds after which no further restart is begun."""

_TOML = """
[agent]
name = "Benchbert"

[models.primary]
provider = "openai"
model = "bench"
base_url = "{base_url}"
max_tokens = 1000
max_context_tokens = 200000
supports_streaming = true

[http]
rate_limit = 1000000
status_rate_limit = 1000000
"""


@dataclass(frozen=True, slots=True)
class Reply:
    """One message that was answered. Times are monotonic seconds."""

    run: str
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began


@dataclass(slots=True)
class Ledger:
    """What the load has seen. ``reopened`` counts connections that the server had said it would close, or has closed
    while nothing was asked."""

    replies: list[Reply] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    resumed: int = 0
    reopened: int = 0


@dataclass(frozen=True, slots=True)
class Restart:
    """One request to restart a service; ``processes`` were followed by new ones."""

    service: str
    began: float
    ended: float
    processes: int


class Customer:
    """A session with a connection of its own, kept for as long as the server does."""

    def __init__(self, url: str, token: str, ledger: Ledger, *, streams: bool) -> None:
        self._url = url
        self._token = token
        self._ledger = ledger
        self._streams = streams
        self._line: HttpLine | None = None

    async def ask(self, sender: str, mark: Mark) -> None:
        """Say one message; a fault is noted."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                said = await (self._follow(sender, mark) if self._streams else self._chat(sender, mark))
        except (OSError, TimeoutError, ValueError) as fault:
            self._ledger.failed.append(f"{mark.token}: {type(fault).__name__}: {fault}")
            await self.hang_up()
            return
        if said is None:
            return
        run_id, text = said
        if text != reply_text(mark.token):
            self._ledger.failed.append(f"{mark.token}: the reply was {text[:200]!r}")
            return
        self._ledger.replies.append(Reply(run_id, began, time.monotonic()))

    async def hang_up(self) -> None:
        """Close the connection."""
        if self._line is not None:
            await self._line.__aexit__()
            self._line = None

    async def _open(self) -> HttpLine:
        if self._line is not None and self._line.is_over:
            self._ledger.reopened += 1
            await self.hang_up()
        if self._line is None:
            self._line = await HttpLine(self._url, token=self._token).__aenter__()
        return self._line

    async def _chat(self, sender: str, mark: Mark) -> tuple[str, str] | None:
        line = await self._open()
        message = {"message": message_text(mark), "sender": sender}
        status, body = await line.post("/api/v1/chat", message, key=mark.token)
        if status != 200:
            self._ledger.failed.append(f"{mark.token}: status {status}, {body[:200]!r}")
            return None
        told = orjson.loads(body)
        return told["run_id"], told.get("reply", "")

    async def _follow(self, sender: str, mark: Mark) -> tuple[str, str]:
        line = await self._open()
        message = {"message": message_text(mark), "sender": sender}
        run_id, last, pieces, is_over = "", "", list[tuple[str, str]](), False
        events = line.follow("/api/v1/chat/stream", message, key=mark.token)
        while True:
            async for kind, data, identifier in events:
                told, last = orjson.loads(data), identifier or last
                if "keep" in told:
                    pieces = [one for one in pieces if _order(one[0]) <= _order(told["keep"])]
                if kind == "accepted":
                    run_id = told["run_id"]
                elif kind == "delta":
                    pieces.append((identifier, told["text"]))
                is_over = is_over or kind in {"done", "failed", "cancelled"}
            if is_over:
                return run_id, "".join(text for _, text in pieces)
            if not run_id:
                raise ConnectionResetError("the stream ended before it began")
            self._ledger.resumed += 1
            line = await self._open()
            events = line.follow(f"/api/v1/runs/{run_id}/events", after=last)


def _order(identifier: str) -> tuple[int, int]:
    epoch, _, place = identifier.partition("-")
    return int(epoch), int(place)


class Launched:
    """Lucyd under its launcher, with a data folder of its own."""

    def __init__(self, folder: Path, model_url: str, *, workers: int) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self.out = folder / "launcher.out"
        config = folder / "lucyd.toml"
        config.write_text(_TOML.format(base_url=f"{model_url}/v1"), "utf-8")
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "TMPDIR"}}  # noqa: TID251
        self.environment = {
            **kept,
            "HOME": str(folder),
            "LUCYD_DATA_DIR": str(self.data),
            "LUCYD_HTTP_PORT": str(self.port),
            "LUCYD_CONFIG": str(config),
        }
        with self.out.open("wb") as out:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "deploy.local", "--workers", str(workers)],
                cwd=PROJECT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def wait_until_ready(self) -> None:
        """Raises ``RuntimeError`` with what it said when it can't run."""
        wait_until(
            lambda: "Lucyd is ready" in self.text or self.popen.poll() is not None, "it is ready", within=READY_WITHIN
        )
        if self.popen.poll() is not None:
            raise RuntimeError(f"the launcher ended:\n{self.text}")

    @property
    def text(self) -> str:
        """What it has said."""
        return self.out.read_text("utf-8", "replace")

    @property
    def url(self) -> str:
        """The gateway's address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """The bearer token."""
        return (self.data / "http_token").read_text("utf-8").strip()

    @property
    def addresses(self) -> dict[str, str]:
        """Of the servers."""
        return cast("dict[str, str]", json.loads((self.data / "launcher.json").read_text("utf-8")))

    def stop(self) -> None:
        """As Ctrl-C does."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        self.popen.wait(60)


@contextlib.contextmanager
def launched(folder: Path, *, workers: int = 2) -> Iterator[Launched]:
    """Everything runs within the block, and a model server beside it."""
    with model_server(folder, "bench.model_server") as (model_url, _):
        started = Launched(folder, model_url, workers=workers)
        try:
            started.wait_until_ready()
            yield started
        finally:
            started.stop()


async def measure_restarts(
    lucyd: Launched, *, restarts: int, rate: float, services: Sequence[str] = SERVICES, undisturbed: float = 20.0
) -> dict[str, Any]:
    """Restart services in turn, ``restarts`` processes in all, under ``rate`` messages a second; what came of it."""
    ledger, over = Ledger(), asyncio.Event()
    load = asyncio.create_task(_load(lucyd, ledger, rate, over))
    await asyncio.sleep(WARM_UP)
    quiet_from = time.monotonic()
    await asyncio.sleep(undisturbed)
    restarts_from = time.monotonic()
    done, errors = await _restart(lucyd, restarts, services)
    restarts_to = time.monotonic()
    await asyncio.sleep(1)
    over.set()
    await load
    quiet = [reply.seconds for reply in ledger.replies if quiet_from <= reply.began < restarts_from]
    shaken = [reply.seconds for reply in ledger.replies if restarts_from <= reply.began < restarts_to]
    attempts, duplicates = await asyncio.to_thread(_look, lucyd.addresses["database_url"])
    before, during = _spread(quiet), _spread(shaken)
    return {
        "restarts": sum(each.processes for each in done),
        "asked": restarts,
        "requests": len(ledger.replies) + len(ledger.failed),
        "failed": len(ledger.failed),
        "reasons": ledger.failed[:20],
        "restart_errors": errors,
        "attempts_counted": attempts,
        "duplicate_answers": duplicates,
        "streams_resumed": ledger.resumed,
        "connections_reopened": ledger.reopened,
        "latency_s": {"undisturbed": before, "restarts": during, "p99_ratio": during["p99"] / before["p99"]},
        "seconds_per_restart": {
            service: _mean([(each.ended - each.began) / each.processes for each in done if each.service == service])
            for service in services
        },
        "latency_by_service_p99_s": {
            service: _spread(
                [
                    reply.seconds
                    for reply in ledger.replies
                    if any(each.began <= reply.ended and reply.began <= each.ended for each in done
                           if each.service == service)
                ]
            )["p99"]
            for service in services
        },
        "rate": rate,
        "took_s": restarts_to - restarts_from,
    }  # fmt: skip


async def _restart(lucyd: Launched, restarts: int, services: Sequence[str]) -> tuple[list[Restart], list[str]]:
    done, errors, began = list[Restart](), list[str](), time.monotonic()
    for service in itertools.cycle(services):
        if sum(each.processes for each in done) >= restarts or time.monotonic() - began > LONGEST:
            break
        lines: list[str] = []
        at = time.monotonic()
        try:
            await asyncio.to_thread(ask_restart, lucyd.data, [service], show=lines.append)
        except ConfigError as fault:
            errors += fault.errors
            break
        done.append(Restart(service, at, time.monotonic(), len(lines)))
    return done, errors


async def _load(lucyd: Launched, ledger: Ledger, rate: float, over: asyncio.Event) -> None:
    chance, numbers, moments = random.Random(1), itertools.count(), asyncio.Queue[bool]()  # noqa: S311 - spreads the load

    async def session(number: int) -> None:
        customer = Customer(lucyd.url, lucyd.token, ledger, streams=number < STREAMED)
        for turn in itertools.count():
            if not await moments.get():
                break
            sender = f"s{number:03d}-{turn // RUNS_PER_CONVERSATION}"
            await customer.ask(sender, Mark(f"{next(numbers):012x}", LATENCY_MS, LATENCY_MS))
        await customer.hang_up()

    async def pace() -> None:
        moment = time.monotonic()
        while not over.is_set():
            moment += chance.expovariate(rate)
            await asyncio.sleep(moment - time.monotonic())
            moments.put_nowait(True)  # noqa: FBT003 - one more message
        for _ in range(SESSIONS):
            moments.put_nowait(False)  # noqa: FBT003 - and no more

    await asyncio.gather(pace(), *(session(number) for number in range(SESSIONS)))


def _look(database_url: str) -> tuple[int, int]:
    """How many runs have another number of attempts than one, and how many have more than one answer."""
    with psycopg.connect(database_url) as connection:
        attempts = connection.execute("select count(*) from runs where attempts <> 1").fetchone()
        twice = connection.execute(
            "select count(*) from (select from messages where role = 'assistant' group by run having count(*) > 1) t"
        ).fetchone()
    return int(attempts[0] if attempts else 0), int(twice[0] if twice else 0)


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {"p50": 0.0, "p99": 0.0, "max": 0.0, "samples": 0}
    spread = {"p50": percentile(seconds, 0.5), "p99": percentile(seconds, 0.99), "max": max(seconds)}
    return {**spread, "samples": len(seconds)}


def _mean(figures: Sequence[float]) -> float:
    return sum(figures) / len(figures) if figures else 0.0


def table(told: dict[str, Any]) -> str:
    """For a person."""
    before, during = told["latency_s"]["undisturbed"], told["latency_s"]["restarts"]
    lines = [
        f"restarts            {told['restarts']} in {told['took_s']:.0f} s",
        f"requests            {told['requests']} at {told['rate']:g} a second, failed {told['failed']}",
        f"attempts counted    {told['attempts_counted']}; answered twice {told['duplicate_answers']}",
        f"streams resumed     {told['streams_resumed']}; connections opened again {told['connections_reopened']}",
        f"p50, p99 undisturbed {1000 * before['p50']:.0f} ms, {1000 * before['p99']:.0f} ms",
        f"p50, p99 restarting  {1000 * during['p50']:.0f} ms, {1000 * during['p99']:.0f} ms, "
        f"ratio of p99 {told['latency_s']['p99_ratio']:.2f}",
        "seconds a restart    " + ", ".join(f"{name} {took:.1f}" for name, took in told["seconds_per_restart"].items()),
        "p99 ms meanwhile     "
        + ", ".join(f"{name} {1000 * took:.0f}" for name, took in told["latency_by_service_p99_s"].items()),
    ]
    if told["restarts"] < told["asked"]:
        lines.append(f"the machine is slow: only {told['restarts']} of {told['asked']} restarts fit into {LONGEST:g} s")
    return "\n".join([*lines, *told["restart_errors"], *told["reasons"]])


def main(words: Sequence[str]) -> int:
    """Measure; 0 when nothing was lost."""
    parser = argparse.ArgumentParser(prog="bench.rolling", description="Rolling restarts under load: what they cost.")
    parser.add_argument("--restarts", type=int, default=100, metavar="N")
    parser.add_argument("--rate", type=float, default=25.0, help="messages a second")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--service", action="append", choices=SERVICES, help="only this one")
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args(words)
    with logs_folder("restarts") as logs:
        with launched(logs.path, workers=asked.workers) as lucyd:
            addresses = lucyd.addresses
            machine = describe_machine(addresses["database_url"], addresses["redis_url"])
            machine["load_average_at_start"] = load_average()
            measured = measure_restarts(
                lucyd, restarts=asked.restarts, rate=asked.rate, services=asked.service or SERVICES
            )
            told = run(measured)
            machine["load_average_at_end"] = load_average()
        asked.out.mkdir(parents=True, exist_ok=True)
        keep(asked.out, "restarts", {**told, "workers": asked.workers, "machine": machine})
        sys.stdout.write(f"{table(told)}\n")
        wrong = (told["failed"], told["attempts_counted"], told["duplicate_answers"], len(told["restart_errors"]))
        logs.was_right = not any(wrong)
    return 0 if logs.was_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
