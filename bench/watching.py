"""What the model server noted, brought together with what the load and Postgres know."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psycopg

from bench.http_line import HttpLine
from bench.load import Ask

LOOKS_EVERY = 0.02


@dataclass(frozen=True, slots=True)
class Receipt:
    """One request at the model server: monotonic and wall nanoseconds, and when each piece of the answer was sent."""

    token: str
    at: int
    wall: int
    sent: Sequence[int]


@dataclass(frozen=True, slots=True)
class Measured:
    """One run by all clocks, in milliseconds.

    ``accepted`` is from the run's ``accepted_at`` to the receipt at the model server, ``asked`` from the client's
    sending (or when it was due) to the receipt, ``overhead`` the client's whole time less the model's.
    """

    accepted: float
    asked: float
    overhead: float
    whole: float


class ModelNotes:
    """The notes of the model server; each is taken from it once."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def take(self) -> list[Receipt]:
        """What was noted since the last time."""
        async with HttpLine(self._url) as line:
            notes = await line.get("/__notes")
        return [Receipt(token, at, wall, sent) for token, at, wall, sent in notes]

    async def last_request(self) -> bytes:
        """The body of the newest request."""
        async with HttpLine(self._url) as line:
            status, body = await line.post("/__last", {})
        if status != 200:
            raise OSError(f"the model server answered {status}")
        return body

    async def until_heard(self, tokens: Sequence[str], *, within: float, after: int = 0) -> Mapping[str, int]:
        """When each of these was first asked for after that moment. Raises ``RuntimeError`` when some were not."""
        heard: dict[str, int] = {}
        end = time.monotonic() + within
        while missing := set(tokens) - heard.keys():
            if time.monotonic() > end:
                raise RuntimeError(f"{len(missing)} of {len(tokens)} messages did not reach the model in {within:g} s")
            for receipt in await self.take():
                if receipt.at > after:
                    heard.setdefault(receipt.token, receipt.at)
            await asyncio.sleep(LOOKS_EVERY)
        return {token: heard[token] for token in tokens}


def accepted_at(database_url: str, runs: Sequence[str]) -> Mapping[str, int]:
    """When each run was accepted, in wall nanoseconds: the start of the transaction of accept, by Postgres's clock."""
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "select id::text, (extract(epoch from accepted_at) * 1000000)::bigint from runs where id = any(%s::uuid[])",
            [list(runs)],
        )
        return {run: 1000 * micros for run, micros in rows}


def measured(asks: Sequence[Ask], receipts: Sequence[Receipt], accepted: Mapping[str, int]) -> Sequence[Measured]:
    """Each run by all clocks; the first receipt of a token counts. Raises ``KeyError`` for a run that nobody noted."""
    first: dict[str, Receipt] = {}
    for receipt in receipts:
        first.setdefault(receipt.token, receipt)
    return [_measure(ask, first[ask.token], accepted[ask.run]) for ask in asks]


def _measure(ask: Ask, receipt: Receipt, accepted: int) -> Measured:
    model = receipt.sent[-1] - receipt.at
    return Measured(
        accepted=(receipt.wall - accepted) / 1e6,
        asked=(receipt.at - ask.due) / 1e6,
        overhead=(ask.ended - ask.due - model) / 1e6,
        whole=(ask.ended - ask.due) / 1e6,
    )


def hops(receipts: Sequence[Receipt], seen: Mapping[str, Sequence[int]]) -> Sequence[float]:
    """Milliseconds from the sending of each piece by the model server to its receipt by who follows the run."""
    return [
        (came - sent) / 1e6
        for receipt in receipts
        for sent, came in zip(receipt.sent, seen.get(receipt.token, ()), strict=False)
    ]
