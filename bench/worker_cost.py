"""``python -m bench.worker_cost``: the CPU of a run in the worker itself, without a model call and without Postgres.

The worker's own actions, its outlet and its road to Redis are the real ones, Redis is an embedded Valkey; a model on
paper says ten pieces over the latency, and a store on paper gives every conversation a history of 18 rows. What is left
is what this project's code costs, and it can be compared with that of another version of it: run both in turn.
"""

import argparse
import asyncio
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import orjson

from bench.hot_spots import Samples, tables
from bench.loops import run
from bench.personality import FIRST_LENGTH, write_personality
from bench.processes import cpu_seconds
from bench.sampler import Sampler
from bench.wire import CHUNKS, Mark, message_text, reply_text
from deploy.local import state
from deploy.local.embedded_valkey import run_valkey
from services.agent_worker.actions.ask_model import route_of
from services.agent_worker.actions.desk import Desk, Manner
from services.agent_worker.actions.remember_history import Histories
from services.agent_worker.actions.take_work import WorkInHand
from services.agent_worker.actions.tell import Outlet
from services.agent_worker.edge.toolbox import LocalToolbox
from services.agent_worker.edge.tools.edit import EditTool
from services.agent_worker.edge.tools.paths import AllowedPaths
from services.agent_worker.edge.tools.read import ReadTool
from services.agent_worker.edge.tools.write import WriteTool
from services.agent_worker.edge.workspace_files import TierNames, WorkspaceFiles
from services.agent_worker.rules.fair_share import FairShare
from shared.adapters.inmemory.acts import InMemoryActs
from shared.adapters.inmemory.blobs import InMemoryBlobs
from shared.adapters.inmemory.children import InMemoryChildren
from shared.adapters.inmemory.tables import Tables
from shared.adapters.redis.bulletin import RedisBulletin
from shared.adapters.redis.connection import Redis, open_redis
from shared.adapters.redis.wake_ups import RedisWakeUps
from shared.adapters.system_clock import SystemClock
from shared.domain.chat import Message
from shared.domain.money import Rates, Usage
from shared.domain.provider import ModelSpec
from shared.domain.run import Claim, Route, Session, Stored, StoredMessage, Write
from shared.ids import new_id
from shared.messages import routes
from shared.ports.model import ModelAnswer, ModelRequest, OnDelta
from shared.ports.runs import Cached, Runs
from shared.runtime.logs import set_up_logs

HOUR = timedelta(hours=1)
RUNS = 1200
SLOTS = 16
"""With a model of 0.2 s some 75 runs a second: what one of two workers does on a machine that does 150."""

CONVERSATIONS = 150
ROWS = 18
TOKEN = "0" * 12
FILES = TierNames(("SOUL.md", "AGENTS.md", "USER.md"), ("MEMORY.md",))


class PaperModel:
    """``Model`` of the ports: ten pieces over the latency."""

    def __init__(self, latency: float) -> None:
        self._latency = latency
        rates = Rates(Decimal(3), Decimal(15), Decimal("0.3"), Decimal("3.75"), "USD")
        self.spec = ModelSpec(name="primary", provider="openai", model="bench", rates=rates, max_context_tokens=200_000)
        whole = reply_text(TOKEN)
        size = -(-len(whole) // CHUNKS)
        self._pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        self._answer = ModelAnswer(whole, usage=Usage(input=2600, output=120))

    async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        """See ``Model.answer``."""
        for piece in self._pieces:
            if self._latency:
                await asyncio.sleep(self._latency / len(self._pieces))
            on_delta("text", piece)
        return self._answer


@dataclass(frozen=True, slots=True)
class YoungPulse:
    """A beat that has just been heard."""

    age: timedelta = timedelta(0)


class PaperRuns:
    """What of ``Runs`` an undisturbed run needs, for next to nothing."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._sessions: dict[str, UUID] = {}
        self._ordinals: dict[str, int] = {}
        said = message_text(Mark(TOKEN, 200, 200))
        self._text = said
        self._bodies: Sequence[Message] = [
            {"role": "user", "content": said, "received_at": "2026-01-05T10:00:00+00:00"}
            if number % 2 == 0
            else {"role": "assistant", "text": reply_text(TOKEN)}
            for number in range(ROWS)
        ]
        self.ended = 0

    async def claim(self, conversation: str, *, call_id: UUID, cached: Cached | None, **_: Any) -> Claim:
        """The next run of that conversation, which always has one."""
        session = self._sessions.setdefault(conversation, new_id())
        before = self._ordinals.get(conversation, ROWS)
        ordinal = self._ordinals[conversation] = before + 2
        begin = cached.ordinal + 1 if cached is not None else 1
        run_id = new_id()
        rows = [
            StoredMessage(number, run_id if number == before + 1 else session, self._bodies[(number - 1) % ROWS])
            for number in range(max(begin, before - ROWS), before + 2)
        ]
        return Claim(
            run=run_id,
            conversation=conversation,
            epoch=7,
            ordinal=ordinal,
            kind="message",
            source="http",
            tier="full",
            principal="key:default",
            sender="bench",
            contact="http-bench",
            channel="http",
            text=self._text,
            accepted_at=datetime.now(UTC),  # noqa: TID251 - a date on paper
            time_left=HOUR,
            attempts=1,
            stage="new",
            step=0,
            keep="0-1",
            cancel_asked=None,
            session=Session(session, datetime(2026, 1, 5, tzinfo=UTC), before + 1, 1, None, 0, 2600, False),  # noqa: FBT003
            route=self._route,
            call_id=call_id,
            history_from=begin,
            messages=rows,
        )

    async def store(self, conversation: str, *, worker: UUID, epoch: int, write: Write) -> Stored:
        """It is stored, and nothing waits behind it."""
        self.ended += write.ending is not None
        return Stored(more=False)

    async def published(self, runs: Sequence[UUID], *, told_within: timedelta) -> None:
        """That is known."""


@dataclass(slots=True)
class Worker:
    """One worker of this process, and what it is asked."""

    client: Redis
    hand: WorkInHand
    runs: PaperRuns
    outlet: Outlet
    wake_ups: RedisWakeUps

    async def work_through(self, count: int) -> None:
        """Answer so many messages, or a few more."""
        work: Sequence[Coroutine[Any, Any, None]] = (
            self._take(),
            self.outlet.flush_for_ever(),
            self.outlet.remember_published(),
        )
        loops = [asyncio.ensure_future(each) for each in work]
        for _ in range(-(-count // CONVERSATIONS)):
            goal = self.runs.ended + CONVERSATIONS
            await self._ask()
            async with asyncio.timeout(60):
                while self.runs.ended < goal:  # noqa: ASYNC110 - a look now and then costs less than being told
                    await asyncio.sleep(0.02)
                await self.hand.empty()
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await self.outlet.flush()

    async def _take(self) -> None:
        while True:
            if self.hand.free == 0:
                await self.hand.slot()
                continue
            for wake_up in await self.wake_ups.take(limit=self.hand.free, wait=timedelta(seconds=1)):
                self.hand.take(wake_up.conversation, entry=wake_up.entry)

    async def _ask(self) -> None:
        pipeline: Any = self.client.pipeline(transaction=False)
        for number in range(CONVERSATIONS):
            fields = {"conversation": f"http:default:b{number:07d}", "run": str(new_id())}
            pipeline.xadd(routes.INBOUND, fields)
        await pipeline.execute()


@contextlib.asynccontextmanager
async def open_worker(redis_url: str, workspace: Path, *, latency: float, slots: int) -> AsyncIterator[Worker]:
    """A worker as its wiring makes it, but for model, store and beat."""
    clock, model = SystemClock(), PaperModel(latency)
    runs = PaperRuns(route_of(model))
    store = cast("Runs", runs)
    paths = AllowedPaths((), workspace)
    async with open_redis(redis_url) as client:
        outlet = Outlet(RedisBulletin(client, stream_ttl=HOUR, result_ttl=HOUR), store, clock)
        wake_ups = RedisWakeUps(client, consumer="bench", stream_ttl=HOUR)
        await wake_ups.take(limit=1, wait=timedelta(milliseconds=1))  # makes the group
        desk = Desk(
            worker=new_id(),
            runs=store,
            models={"primary": model},
            routes={"*": route_of(model)},
            toolbox=LocalToolbox(
                [ReadTool(paths, default_limit=2000), WriteTool(paths), EditTool(paths)],
                output_truncation=10_000,
                max_parallel=4,
            ),
            workspace=WorkspaceFiles(AllowedPaths([workspace], workspace), {"full": FILES}),
            outlet=outlet,
            acts=InMemoryActs(Tables(clock), {}),
            children=InMemoryChildren(Tables(clock)),
            blobs=InMemoryBlobs(Tables(clock)),
            clock=clock,
            pulse=YoungPulse(),
            manner=Manner(),
            draining=asyncio.Event(),
            chance=random.Random(1),  # noqa: S311 - guards nothing
        )
        yield Worker(client, WorkInHand(desk, Histories(64_000_000), share=FairShare(slots)), runs, outlet, wake_ups)


async def cost(worker: Worker, runs: int) -> tuple[float, float]:
    """Milliseconds of CPU for a run: of this process, and of Redis."""
    await worker.work_through(CONVERSATIONS)
    redis_pid = int((await worker.client.info("server"))["process_id"])
    mine, theirs = time.process_time(), cpu_seconds(redis_pid)
    await worker.work_through(runs)
    return 1000 * (time.process_time() - mine) / runs, 1000 * (cpu_seconds(redis_pid) - theirs) / runs


@contextlib.contextmanager
def _valkey(folder: Path) -> Iterator[str]:
    with state.claim(state.open_folder(folder)) as claim, run_valkey(claim, None) as valkey:
        yield valkey.url


async def _measured(folder: Path, asked: argparse.Namespace, sampler: Sampler | None) -> tuple[float, float]:
    workspace = folder / "workspace"
    workspace.mkdir()
    write_personality(workspace, FIRST_LENGTH)
    with _valkey(folder / "valkey") as url:
        async with open_worker(url, workspace, latency=asked.latency_ms / 1000, slots=asked.slots) as worker:
            await worker.work_through(CONVERSATIONS)
            if sampler is not None:
                sampler.listen()
                signal.raise_signal(signal.SIGUSR1)
            return await cost(worker, asked.runs)


def main(words: Sequence[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="bench-worker", description="The CPU of a run in the worker itself.")
    parser.add_argument("--runs", type=int, default=RUNS, help="how many messages are answered")
    parser.add_argument("--slots", type=int, default=SLOTS, help="how many at a time")
    parser.add_argument("--latency-ms", type=int, default=200, help="how long an answer of the model takes")
    parser.add_argument("--profile", action="store_true", help="show where it goes")
    asked = parser.parse_args(words)
    set_up_logs("agent_worker", form="json")
    sampler = Sampler() if asked.profile else None
    with tempfile.TemporaryDirectory(prefix="lucyd-worker-cost-") as name:
        folder = Path(name)
        mine, theirs = run(_measured(folder, asked, sampler))
        sys.stdout.write(f"worker {mine:.3f} ms of CPU for a run, redis {theirs:.3f}\n")
        if sampler is not None:
            sampler.write(folder / "samples.json")
            samples = Samples(**orjson.loads((folder / "samples.json").read_bytes()))
            sys.stdout.write("\n".join(tables("worker", samples, mine, most=45)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
