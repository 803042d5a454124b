"""The load of a soak: a bit of everything that people and operators do, at a moderate pace, every reply checked."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from uuid import UUID

import orjson

from bench.load import Gate, Tokens
from bench.soak_model import REFUSALS, TOOLS, mood_text
from bench.wire import reply_text
from shared.messages import routes
from shared.ports.queues import Queues

OLD = 30
"""Conversations that go on for the whole soak; the load's others are said one message and left."""

BIG_BYTES = 200_000
PATIENCE = 60.0
AT_ONCE = 200
"""Acts under way; what comes beyond that is not begun, and counted."""

MOST_TOLD = 100
REFUSED = (429, 503)
"""Come later: no wrong answer of a machine that has too much to do. They are counted apart."""

_JOBS = (
    (routes.INDEX_QUEUE, routes.INDEX_JOB),
    (routes.CONSOLIDATE_QUEUE, routes.CONSOLIDATE_JOB),
    (routes.MAINTAIN_QUEUE, routes.MAINTAIN_JOB),
)
_READS = (
    *("/api/v1/sessions", "/api/v1/cost?period=today", "/api/v1/cost?period=all", "/api/v1/monitor"),
    *("/api/v1/status", "/api/v1/dead"),
)

Act = Callable[[], Awaitable[None]]


class WrongReply(Exception):
    """Says what came in place of what should have; with the status where that was not 200."""

    def __init__(self, sentence: str, status: int = 200) -> None:
        super().__init__(sentence)
        self.status = status


class SoakLoad:
    """Acts at random moments. ``wrong`` has a sentence for each of the first replies that were not right.

    ``refused`` counts those that were told to come later.
    """

    def __init__(self, gate: Gate, tokens: Tokens, queues: Queues, *, seed: int = 1) -> None:
        self._gate = gate
        self._tokens = tokens
        self._queues = queues
        self._chance = Random(seed)  # noqa: S311 - which act comes next, not a secret
        self._under_way: set[asyncio.Task[None]] = set()
        self._resetting = {f"reset{number}": asyncio.Lock() for number in range(4)}
        self._big = asyncio.Lock()
        self._fresh = 0
        self._jobs = 0
        self.runs = 0
        self.acts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.wrong_count = 0
        self.held_back = 0
        self.refused = 0

    async def go(self, *, until: float, rate: float) -> None:
        """Act ``rate`` times a second until that monotonic moment, then wait for what is under way."""
        kinds = self._kinds()
        names, weights = list(kinds), [weight for _, weight in kinds.values()]
        moment = time.monotonic()
        while (moment := moment + self._chance.expovariate(rate)) < until:
            await asyncio.sleep(moment - time.monotonic())
            if len(self._under_way) >= AT_ONCE:
                self.held_back += 1
                continue
            name = self._chance.choices(names, weights)[0]
            task = asyncio.create_task(self._do(name, kinds[name][0]))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        if self._under_way:
            await asyncio.wait(self._under_way)

    def _kinds(self) -> Mapping[str, tuple[Act, float]]:
        """Each with its weight."""
        return {
            "waits": (lambda: self._ask(self._old()), 20),
            "comes once": (lambda: self._ask(self._new()), 20),
            "follows": (lambda: self._follow(self._old()), 12),
            "leaves half way": (self._leave_half_way, 8),
            "tools": (lambda: self._ask(self._old(), mood=self._chance.choice(list(TOOLS))), 8),
            "provider faults": (lambda: self._ask(self._old(), mood=self._chance.choice([*REFUSALS, "cut"])), 4),
            "asks twice": (self._ask_twice, 6),
            "cancels": (self._cancel, 3),
            "resets": (self._reset, 2),
            "looks": (self._look, 8),
            "says much": (self._say_much, 0.5),
            "jobs": (self._enqueue, 1),
        }

    async def _do(self, name: str, act: Act) -> None:
        self.acts[name] += 1
        try:
            async with asyncio.timeout(PATIENCE):
                await act()
        except (WrongReply, OSError, TimeoutError, KeyError, ValueError) as fault:
            if getattr(fault, "status", 200) in REFUSED:
                self.refused += 1
                return
            self.wrong_count += 1
            if len(self.wrong) < MOST_TOLD:
                self.wrong.append(f"{name}: {type(fault).__name__}: {fault}")

    def _old(self) -> str:
        return f"old{self._chance.randrange(OLD):02d}"

    def _new(self) -> str:
        self._fresh += 1
        return f"new{self._fresh:07d}"

    def _text(self, mood: str = "plain", *, latency: int = 100, size: int = 0) -> tuple[str, str]:
        token = self._tokens.next()
        text = f"[[bench {token} {latency:05d} {latency:05d}]] {mood_text(mood)} What is still open?"
        return token, text + " And what else is there to say?" * (size // 31)

    async def _ask(self, sender: str, *, mood: str = "plain", size: int = 0) -> None:
        token, text = self._text(mood, size=size)
        self.runs += 1
        async with self._gate.line() as line:
            _expect(token, await line.post("/api/v1/chat", {"message": text, "sender": sender}))

    async def _follow(self, sender: str) -> None:
        token, text = self._text(latency=300)
        self.runs += 1
        said = ""
        async with self._gate.line() as line:
            async for kind, data in line.stream("/api/v1/chat/stream", {"message": text, "sender": sender}):
                if kind == "delta":
                    said += orjson.loads(data)["text"]
        if said != reply_text(token):
            raise WrongReply(f"the stream of {token} said {said[:200]!r}")

    async def _leave_half_way(self) -> None:
        """The run goes on without its reader, and its reply is there when somebody asks."""
        token, text = self._text(latency=500)
        self.runs += 1
        run = ""
        async with (
            self._gate.line() as line,
            contextlib.aclosing(line.stream("/api/v1/chat/stream", {"message": text, "sender": self._new()})) as events,
        ):
            async for kind, data in events:
                if kind == "accepted":
                    run = orjson.loads(data)["run_id"]
                elif kind == "delta":
                    break
        told = await self._ended(run)
        outcome = told.get("outcome")
        reply = outcome.get("reply") if isinstance(outcome, Mapping) else None
        if told.get("state") != "done" or reply != reply_text(token):
            raise WrongReply(f"the run that was left is {str(told)[:200]}")

    async def _ended(self, run: str) -> Mapping[str, object]:
        async with self._gate.line() as line:
            while True:
                told: Mapping[str, object] = await line.get(f"/api/v1/runs/{UUID(run)}")
                if told.get("state") not in {"accepted", "running", "waiting"}:
                    return told
                await asyncio.sleep(0.5)

    async def _ask_twice(self) -> None:
        token, text = self._text()
        sender = self._new()
        self.runs += 1
        runs = set()
        for _ in range(2):
            async with self._gate.line(key=f"soak-{token}") as line:
                runs.add(_expect(token, await line.post("/api/v1/chat", {"message": text, "sender": sender})))
        if len(runs) != 1:
            raise WrongReply(f"one key made the runs {runs}")

    async def _cancel(self) -> None:
        _, text = self._text(latency=5000)
        self.runs += 1
        kinds, run = [], ""
        async with self._gate.line() as line:
            async for kind, data in line.stream("/api/v1/chat/stream", {"message": text, "sender": self._new()}):
                if kind == "delta" and not run:
                    raise WrongReply("a stream began without its run's id")
                if kind == "accepted":
                    run = orjson.loads(data)["run_id"]
                    async with self._gate.line() as other:
                        status, body = await other.post(f"/api/v1/runs/{run}/cancel", {})
                    if status != 200:
                        raise WrongReply(f"the cancel was answered {status}, {body[:200]!r}", status)
                kinds.append(kind)
        if kinds[-1:] != ["cancelled"]:
            raise WrongReply(f"the cancelled run {run} told {kinds}")

    async def _reset(self) -> None:
        sender, lock = self._chance.choice(list(self._resetting.items()))
        async with lock:
            await self._ask(sender)
            async with self._gate.line() as line:
                status, body = await line.post("/api/v1/sessions/reset", {"target": f"http-{sender}"})
            if status != 200 or not orjson.loads(body).get("reset"):
                raise WrongReply(f"the reset was answered {status}, {body[:200]!r}", status)
            await self._ask(sender)

    async def _look(self) -> None:
        async with self._gate.line() as line:
            await line.get(self._chance.choice(_READS))

    async def _say_much(self) -> None:
        async with self._big:
            await self._ask("big", size=BIG_BYTES)

    async def _enqueue(self) -> None:
        self._jobs += 1
        queue, job = self._chance.choice(_JOBS)
        await self._queues.enqueue(queue, job, {}, job_id=f"soak-{self._jobs}")


def _expect(token: str, answer: tuple[int, bytes]) -> str:
    """The id of the run. Raises ``WrongReply`` when its reply is not what the model said."""
    status, body = answer
    told = orjson.loads(body) if status == 200 else {}
    if told.get("reply") != reply_text(token):
        raise WrongReply(f"{token}: status {status}, {body[:200]!r}", status)
    return str(told["run_id"])
