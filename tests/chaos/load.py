"""The clients: so many at a time as is told; each ask is sent until it is answered, with one key, to any gateway."""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx2

from shared.messages.run_events import TERMINAL_EVENTS
from tests.chaos.history import Answer, Follower, Told
from tests.chaos.plan import Ask
from tests.chaos.scripts import text_of_ask
from tests.stack import TOKEN

TRY_AGAIN = frozenset({408, 429, 503})
PAUSE = 0.3
LOOKS_EVERY = 0.03


@dataclass
class Load:
    """What the clients have got so far. ``patience``: seconds for which an ask is sent again and again.

    ``open`` asks there are; ``target`` is how many are kept open beside those that somebody called for.
    """

    gateways: Sequence[str]
    seed: int
    patience: float
    answers: list[Answer] = field(default_factory=list)
    followers: list[Follower] = field(default_factory=list)
    open: int = 0
    target: int = 0
    over: bool = False
    _called: list[Ask] = field(default_factory=list)
    _beside: int = 0

    def ask(self, ask: Ask) -> None:
        """Send this one too."""
        self._called.append(ask)

    async def run(self, asks: Iterator[Ask]) -> None:
        """Send asks until it is over, and wait for the last answer."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(timeout=25, headers=headers) as http, asyncio.TaskGroup() as clients:
            while not self.over:
                while self._called:
                    clients.create_task(self._client(http, self._called.pop(0)))
                if self._beside < self.target:
                    self._beside += 1
                    clients.create_task(self._client(http, next(asks))).add_done_callback(self._gone)
                await asyncio.sleep(LOOKS_EVERY)

    def _gone(self, _: object) -> None:
        self._beside -= 1

    async def _client(self, http: httpx2.AsyncClient, ask: Ask) -> None:
        self.open += 1
        client = _Client(http, ask, self.gateways, Random(f"{self.seed} {ask.key}"))
        try:
            async with asyncio.timeout(self.patience):
                answer = await (client.follow() if ask.streamed else client.chat())
        except TimeoutError:
            answer = Answer(ask.key, fault=f"nothing in {self.patience:g} s; last: {client.last_fault}")
        self.answers.append(answer)
        if client.events:
            seen = Follower(client.run, tuple(client.events), client.began, time.time(), client.connections)
            # One that gave up saw no end, and its answer says so already.
            self.followers += [] if answer.fault else [seen]
        self.open -= 1


class _Client:
    def __init__(self, http: httpx2.AsyncClient, ask: Ask, gateways: Sequence[str], random: Random) -> None:
        self.run = ""
        self.events: list[Told] = []
        self.connections = 0
        self.began = time.time()
        self.last_fault = ""
        self._http = http
        self._ask = ask
        self._gateways = gateways
        self._random = random
        self._body = {"message": text_of_ask(ask.key, ask.kind), "sender": ask.sender}
        self._headers = {"Idempotency-Key": f"ask-{ask.key}"}

    async def chat(self) -> Answer:
        """Await one reply."""
        while True:
            url = f"{self._random.choice(self._gateways)}/api/v1/chat"
            try:
                response = await self._http.post(url, json=self._body, headers=self._headers)
            except httpx2.TransportError as fault:
                self.last_fault = repr(fault)
            else:
                if response.status_code == 200:
                    said = response.json()
                    return Answer(self._ask.key, said["run_id"], said["reply"])
                self.last_fault = f"{response.status_code} {response.text[:200]}"
                if response.status_code not in TRY_AGAIN:
                    return Answer(self._ask.key, fault=self.last_fault)
            await asyncio.sleep(PAUSE)

    async def follow(self) -> Answer:
        """Follow the run, leaving now and then, and coming back to any gateway."""
        while True:
            try:
                async with self._connect() as response:
                    self.connections += 1
                    if response.status_code == 200:
                        await self._read(response)
                    else:
                        self.last_fault = f"{response.status_code} {(await response.aread()).decode()[:200]}"
                        if response.status_code not in TRY_AGAIN:
                            return Answer(self._ask.key, fault=self.last_fault)
            except httpx2.TransportError as fault:
                self.last_fault = repr(fault)
            if self.events and self.events[-1].type in TERMINAL_EVENTS:
                return Answer(self._ask.key, self.run, str(self.events[-1].data.get("reply", "")))
            await asyncio.sleep(self._random.uniform(0.0, PAUSE))

    def _connect(self) -> Any:
        gateway = self._random.choice(self._gateways)
        if not self.run:
            url = f"{gateway}/api/v1/chat/stream"
            return self._http.stream("POST", url, json=self._body, headers=self._headers)
        last = {"Last-Event-ID": self.events[-1].id}
        return self._http.stream("GET", f"{gateway}/api/v1/runs/{self.run}/events", headers=last)

    async def _read(self, response: httpx2.Response) -> None:
        """Read until the end, or until this client feels like leaving."""
        leaves_after = self._random.randrange(1, 30)
        identifier = kind = ""
        async for line in response.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                identifier = value
            elif name == "event":
                kind = value
            elif name == "data":
                told = Told(identifier, kind, json.loads(value))
                self.events.append(told)
                self.run = self.run or str(told.data.get("run_id", ""))
                leaves_after -= 1
                if kind in TERMINAL_EVENTS or (leaves_after <= 0 and self.run):
                    return
