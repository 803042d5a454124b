"""Streams are cut and resumed elsewhere, while Redis is emptied and a worker dies: no gap, no repeat."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import psycopg
import pytest
import redis

from shared.messages.routes import run_events
from shared.messages.run_events import id_order
from tests.scripted_model_server import Say, Script, ScriptedModelServer, Use
from tests.stack import EventReader, Process, Stack, async_client, model_toml, open_stack

pytestmark = pytest.mark.alone

SEED = 20_260
RUNS = 6
CUTS = 100
ENDS_WITHIN = 60.0
LOOK = "Ich schaue nach, Schritt für Schritt: \N{GRINNING FACE} eins, zwei, drei und vier. "
AGAIN = "Da steht noch etwas \N{EM DASH} ich lese weiter, bis alles gelesen ist. \N{CAT FACE} "
ANSWER = "Nothing of this answer may be missing, and nothing of it may come twice; \N{PARTY POPPER} " * 3 + "end"

Frame = tuple[str, str, dict[str, Any]]


@pytest.fixture
def models() -> Iterator[ScriptedModelServer]:
    """Answers that take their time, in many pieces."""
    look = ("read", {"file_path": "notes.txt"})
    scripts: dict[str, Script] = {"story": [Use([look], text=LOOK), Use([look, look], text=AGAIN), Say(ANSWER)]}
    with ScriptedModelServer(scripts, chunks=40, chunk_interval=0.025).in_thread() as server:
        yield server


@pytest.fixture
def stack(models: ScriptedModelServer, tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Stack]:
    """One provider, many processes."""
    with open_stack(tmp_path, database_url, redis_url, model_toml("anthropic", models.base_url("anthropic"))) as opened:
        (opened.workspace / "notes.txt").write_text("a note")
        yield opened


def put_together(frames: Sequence[Frame]) -> list[tuple[str, str]]:
    """What stands on the screen of a client that drops everything after each ``keep``, pieces of text joined."""
    ids = [id_order(identifier) for identifier, _, _ in frames]
    assert all(before < after for before, after in itertools.pairwise(ids)), "ids must grow, and none may come twice"
    kept: list[Frame] = []
    for frame in frames:
        if (keep := frame[2].get("keep")) is not None:
            kept = [one for one in kept if id_order(one[0]) <= id_order(keep)]
        kept.append(frame)
    shown: list[tuple[str, str]] = []
    for _, kind, data in kept:
        if kind == "delta" and shown and shown[-1][0] == "delta":
            shown[-1] = (kind, shown[-1][1] + str(data["text"]))
        else:
            shown.append((kind, str(data.get("text", data.get("reply", "")))))
    return shown


@dataclass
class Town:
    """Two gateways, and who knows the runs that are followed through them."""

    gateways: Sequence[httpx2.AsyncClient]
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))  # noqa: S311 - dice, no secret
    cuts: int = 0

    async def begin(self, number: int) -> str:
        """Send a message, and hang up as soon as the run's id is known."""
        body = {"message": f"[[script:story {number}]]", "sender": f"reader-{number}"}
        async with self.gateways[number % 2].stream("POST", "/api/v1/chat/stream", json=body) as answer:
            async for _, kind, data in _frames(answer):
                assert kind == "accepted"
                run: str = data["run_id"]
                return run
        raise AssertionError("the stream ended before it began")

    async def hear(self, run: str, after: str | None, *, at_most: int | None, gateway: int) -> list[Frame]:
        """Follow through a gateway, and cut the connection after so many events."""
        headers = {"Last-Event-ID": after} if after else {}
        heard: list[Frame] = []
        async with self.gateways[gateway].stream("GET", f"/api/v1/runs/{run}/events", headers=headers) as answer:
            assert answer.status_code == 200
            async for frame in _frames(answer):
                heard.append(frame)
                if len(heard) == at_most:
                    break
        return heard

    async def hear_in_pieces(self, run: str) -> list[Frame]:
        """Cut after a few events, come back through the other gateway, until the end."""
        heard: list[Frame] = []
        for gateway in itertools.cycle((0, 1)):
            last = heard[-1][0] if heard else None
            heard += await self.hear(run, last, at_most=self.chance.randint(1, 9), gateway=gateway)
            if heard[-1][1] in {"done", "failed", "cancelled"}:
                return heard
            self.cuts += 1
            await asyncio.sleep(self.chance.choice((0.0, 0.0, 0.05, 0.3)))
        raise AssertionError("unreachable")


async def _frames(answer: httpx2.Response) -> AsyncIterator[Frame]:
    reader = EventReader()
    async for line in answer.aiter_lines():
        if (frame := reader.take(line)) is not None:
            yield frame


async def misfortune(stack: Stack, runs: Sequence[str], worker: Process, chance: random.Random) -> None:
    """While the runs are told: streams are deleted, Redis is emptied, a worker is killed, Redis is emptied again."""
    with redis.Redis.from_url(stack.redis_url) as client:
        await asyncio.sleep(0.7)
        for run in chance.sample(runs, 2):
            client.delete(run_events(UUID(run)))
        await asyncio.sleep(0.4)
        client.flushall()
        await asyncio.sleep(0.5)
        await asyncio.to_thread(worker.kill)
        await asyncio.sleep(0.3)
        client.flushall()


async def test_streams_that_are_cut_a_hundred_times_lose_and_repeat_nothing(stack: Stack) -> None:
    """People close their laptops, gateways come and go; what they have read in the end is the whole answer, once."""
    gateways = [stack.gateway(), stack.gateway()]
    doomed, _ = stack.workers(2)
    async with async_client(gateways[0]) as left, async_client(gateways[1]) as right:
        town = Town((left, right))
        runs = await asyncio.gather(*(town.begin(number) for number in range(RUNS)))
        async with asyncio.timeout(ENDS_WITHIN):
            trouble = asyncio.create_task(misfortune(stack, runs, doomed, town.chance))
            uncut = asyncio.gather(
                *(town.hear(run, None, at_most=None, gateway=number % 2) for number, run in enumerate(runs))
            )
            pieces = asyncio.gather(*(town.hear_in_pieces(run) for run in runs))
            wholes, heard = await uncut, await pieces
            await trouble
        for whole, of_pieces in zip(wholes, heard, strict=True):
            shown = put_together(whole)
            assert put_together(of_pieces) == shown
            said = [text for kind, text in shown if kind == "delta"]
            assert said == [LOOK, AGAIN, ANSWER]
            assert [kind for kind, _ in shown].count("tool_finished") == 3
            assert shown[-1] == ("done", ANSWER)
        with redis.Redis.from_url(stack.redis_url) as client:
            client.flushall()
        while town.cuts < CUTS:  # somebody comes back the next day, with any id that was ever told
            number = town.chance.randrange(RUNS)
            start = town.chance.randrange(len(wholes[number]))
            before, end = wholes[number][:start], wholes[number][-1]
            rest = await town.hear(runs[number], before[-1][0] if before else None, at_most=None, gateway=start % 2)
            assert put_together([*before, *rest]) == put_together(wholes[number])
            assert rest[-1] == end
            town.cuts += 1
    with psycopg.connect(stack.database_url) as database:
        assert database.execute("select count(*) from run_steps").fetchone() != (0,)
        attempts = database.execute("select max(attempts) from runs").fetchone()
        assert attempts is not None
        assert attempts[0] > 1, "the worker was killed with runs in hand"
