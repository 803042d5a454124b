"""The load: conversations that ask, one message at a time each, and check every reply word by word."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import orjson

from bench.http_line import HttpLine
from bench.wire import PIECE_ENDS, Mark, message_text, reply_text

RUNS_PER_CONVERSATION = 5
"""Then a fresh one is taken: with 16 messages at first, the model is shown 16, 18, 20, 22 and 24 of them."""

Session = Callable[[HttpLine], Awaitable[None]]

PATIENCE = 120.0
"""Seconds within which a reply must be there; far more than any cell needs."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One message that was answered as it should be. ``due``, ``sent`` and ``ended`` are monotonic nanoseconds."""

    token: str
    run: str
    due: int
    sent: int
    ended: int


@dataclass(slots=True)
class Tally:
    """What came of a piece of work. ``wrong`` has a sentence for each reply that was missing or not the right one."""

    asks: list[Ask] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """From the first message to the last reply."""
        if not self.asks:
            return 0.0
        return (max(ask.ended for ask in self.asks) - min(ask.sent for ask in self.asks)) / 1e9


class Tokens:
    """Tokens that never come twice in one run of the bench."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def next(self) -> str:
        """A fresh one."""
        return f"{next(self._numbers):012x}"


@dataclass(frozen=True, slots=True)
class Gate:
    """Where the load goes in."""

    url: str
    token: str = field(repr=False)

    def line(self, *, key: str = "") -> HttpLine:
        """A connection; ``key`` goes with each request on it as its idempotency key."""
        return HttpLine(self.url, token=self.token, key=key)


async def ask(line: HttpLine, sender: str, mark: Mark, tally: Tally, *, due: int | None = None) -> None:
    """Say one message and note what came of it; a fault is noted, not raised."""
    sent = time.monotonic_ns()
    try:
        async with asyncio.timeout(PATIENCE):
            message = {"message": message_text(mark), "sender": sender}
            status, body = await line.post("/api/v1/chat", message)
    except (OSError, TimeoutError) as fault:
        tally.wrong.append(f"{mark.token}: no reply ({type(fault).__name__}: {fault})")
        return
    ended = time.monotonic_ns()
    told = orjson.loads(body) if status == 200 else {}
    if told.get("reply") != reply_text(mark.token):
        tally.wrong.append(f"{mark.token}: status {status}, {body[:200]!r}")
        return
    tally.asks.append(Ask(mark.token, told["run_id"], sent if due is None else due, sent, ended))


async def closed_loop(
    gate: Gate, senders: Sequence[str], *, sessions: int, runs: int, latency_ms: int, tokens: Tokens
) -> Tally:
    """So many runs by so many sessions, each asking again as soon as it is answered."""
    tally, left, fresh = Tally(), iter(range(runs)), iter(senders)

    async def session(line: HttpLine) -> None:
        for sender in _turns(fresh):
            if next(left, None) is None:
                return
            await ask(line, sender, Mark(tokens.next(), latency_ms, latency_ms), tally)

    await _on_lines(gate, sessions, session)
    return tally


async def open_loop(
    gate: Gate,
    senders: Sequence[str],
    *,
    sessions: int,
    runs: int,
    rate: float,
    latency_ms: int,
    tokens: Tokens,
    chance: Random,
) -> Tally:
    """So many runs that begin at random moments, ``rate`` a second on average, whatever becomes of the ones before.

    Where all sessions are busy, the next message waits, and ``due`` tells since when.
    """
    tally, fresh = Tally(), iter(senders)
    moments: asyncio.Queue[int | None] = asyncio.Queue()

    async def session(line: HttpLine) -> None:
        for sender in _turns(fresh):
            if (due := await moments.get()) is None:
                return
            await ask(line, sender, Mark(tokens.next(), latency_ms, latency_ms), tally, due=due)

    async def pace() -> None:
        moment = time.monotonic()
        for _ in range(runs):
            moment += chance.expovariate(rate)
            await asyncio.sleep(moment - time.monotonic())
            moments.put_nowait(int(moment * 1e9))
        for _ in range(sessions):
            moments.put_nowait(None)

    await asyncio.gather(pace(), _on_lines(gate, sessions, session))
    return tally


async def followed(
    gate: Gate, senders: Sequence[str], *, sessions: int, runs: int, latency_ms: int, tokens: Tokens
) -> tuple[Tally, dict[str, list[int]]]:
    """As ``closed_loop``, over ``/api/v1/chat/stream``; and for each token when each piece of its reply had come."""
    tally, left, fresh, seen = Tally(), iter(range(runs)), iter(senders), dict[str, list[int]]()

    async def session(line: HttpLine) -> None:
        for sender in _turns(fresh):
            if next(left, None) is None:
                return
            mark = Mark(tokens.next(), latency_ms, latency_ms)
            seen[mark.token] = await _follow(line, sender, mark, tally)

    await _on_lines(gate, sessions, session)
    return tally, seen


async def _follow(line: HttpLine, sender: str, mark: Mark, tally: Tally) -> list[int]:
    sent, said, moments = time.monotonic_ns(), "", list[int]()
    try:
        async with asyncio.timeout(PATIENCE):
            message = {"message": message_text(mark), "sender": sender}
            run = ""
            async for kind, data in line.stream("/api/v1/chat/stream", message):
                now = time.monotonic_ns()
                told = orjson.loads(data)
                if kind == "accepted":
                    run = told["run_id"]
                elif kind == "delta":
                    said += told["text"]
                    while len(moments) < len(PIECE_ENDS) and PIECE_ENDS[len(moments)] <= len(said):
                        moments.append(now)
    except (OSError, TimeoutError) as fault:
        tally.wrong.append(f"{mark.token}: the stream broke ({type(fault).__name__}: {fault})")
        return moments
    if said == reply_text(mark.token):
        tally.asks.append(Ask(mark.token, run, sent, sent, time.monotonic_ns()))
    else:
        tally.wrong.append(f"{mark.token}: the stream said {said[:200]!r}")
    return moments


def _turns(fresh: Iterator[str]) -> Iterator[str]:
    for sender in fresh:
        yield from itertools.repeat(sender, RUNS_PER_CONVERSATION)


async def _on_lines(gate: Gate, count: int, session: Session) -> None:
    """Have so many sessions, each with a line of its own; all lines are open before the first message."""
    async with contextlib.AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(gate.line()) for _ in range(count)]
        await asyncio.gather(*map(session, lines))
