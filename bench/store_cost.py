"""``python -m bench.store_cost``: what the storage of a run costs, by itself: Postgres, and our road to it.

A Postgres of its own, the real ``PostgresInbox`` and ``PostgresRuns``, no gateway, no worker, no Redis. Every
conversation gets a few runs; what is asked goes in waves, all conversations at once, so that each kind of statement can
be counted alone: CPU of Postgres with all its processes, CPU of this process, bytes of WAL. Everything is as in the
bench: 300-byte messages, a history, answers of ten pieces that were told, commits that are waited for.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from bench.history import seed_conversations
from bench.load import RUNS_PER_CONVERSATION
from bench.loops import run
from bench.processes import cpu_seconds_of_tree, parent_of
from bench.wire import TOKEN_LENGTH, Mark, message_text, reply_text
from deploy.local.servers import open_servers
from shared.adapters.postgres.fleet import PostgresFleet
from shared.adapters.postgres.inbox import PostgresInbox
from shared.adapters.postgres.migrate import migrate
from shared.adapters.postgres.pool import open_database
from shared.adapters.postgres.runs import PostgresRuns
from shared.adapters.processes import this_process
from shared.domain.money import Rates, Usage
from shared.domain.run import (
    Address,
    Claim,
    Ending,
    NewRun,
    Route,
    SessionAfter,
    Settlement,
    Told,
    Write,
)
from shared.ids import new_id
from shared.messages.run_events import event_id, terminal_id
from shared.ports.runs import Cached

CONVERSATIONS = 200
RUNS_EACH = RUNS_PER_CONVERSATION
CONNECTIONS = 16
PUBLISHED_AT_ONCE = 50
"""So many ends does a busy worker note in one statement."""

ROUTES = {"*": Route("bench", Decimal("0.75"), "USD")}
RATES = Rates(Decimal(3), Decimal(15), Decimal("0.30"), Decimal("3.75"))
USAGE = Usage(input=2600, output=90)
TABLES = """
select relname, n_tup_ins, n_tup_upd, n_tup_hot_upd, n_dead_tup from pg_stat_user_tables
where n_tup_ins + n_tup_upd > 0 and relname <> 'migrations' order by n_tup_ins + n_tup_upd desc
"""


@dataclass(slots=True)
class Cost:
    """What one kind of statement has cost so far; seconds, bytes."""

    statements: int = 0
    postgres: float = 0.0
    own: float = 0.0
    wal: int = 0

    def row(self, name: str, runs: int) -> str:
        """It as one line of the table: milliseconds and bytes for each run."""
        return (
            f"{name:<12}{self.statements / runs:>8.2f}{1000 * self.postgres / runs:>12.3f}"
            f"{1000 * self.own / runs:>12.3f}{self.wal / runs:>12.0f}"
        )


@dataclass
class Meter:
    """Counts what goes by while a wave is under way; the connection is its own.

    ``tables``: name, rows inserted, rows updated, of these without touching an index, and dead rows.
    """

    connection: psycopg.Connection
    postmaster: int
    costs: dict[str, Cost] = field(default_factory=dict)
    tables: Sequence[tuple[Any, ...]] = ()

    async def wave(self, name: str, statements: Sequence[Callable[[], Awaitable[Any]]]) -> list[Any]:
        """Send them all at once; the answers in their order."""
        before, wal, own = cpu_seconds_of_tree(self.postmaster), self._wal(), time.process_time()
        answers = list(await asyncio.gather(*(send() for send in statements)))
        cost = self.costs.setdefault(name, Cost())
        cost.own += time.process_time() - own
        cost.wal += self._wal() - wal
        cost.postgres += cpu_seconds_of_tree(self.postmaster) - before
        cost.statements += len(statements)
        return answers

    def whole(self) -> Cost:
        """All waves together."""
        costs = self.costs.values()
        return Cost(
            sum(cost.statements for cost in costs),
            sum(cost.postgres for cost in costs),
            sum(cost.own for cost in costs),
            sum(cost.wal for cost in costs),
        )

    def _wal(self) -> int:
        row = self.connection.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
        return int(row[0]) if row else 0


class Work:
    """Runs of one worker, from accept to what was told of their end."""

    def __init__(self, inbox: PostgresInbox, runs: PostgresRuns, worker: UUID, meter: Meter) -> None:
        self._inbox = inbox
        self._runs = runs
        self._worker = worker
        self._meter = meter
        self.done = 0

    async def round(self, senders: Sequence[str]) -> None:
        """``RUNS_EACH`` runs for each sender, one after the other; the first claim of each reads the whole history."""
        cached: dict[str, Cached] = {}
        for _ in range(RUNS_EACH):
            await self._meter.wave("accept", [self._accept(sender) for sender in senders])
            claims: list[Claim] = await self._meter.wave(
                "claim", [self._claim(sender, cached.get(sender)) for sender in senders]
            )
            for sender, claim in zip(senders, claims, strict=True):
                last = claim.session.last_ordinal + 1  # the answer is in this worker's memory as well
                cached[sender] = Cached(claim.session.id, last, claim.session.live_from)
            await self._meter.wave("store", [self._store(claim) for claim in claims])
            ended = [claim.run for claim in claims]
            told = [ended[begin : begin + PUBLISHED_AT_ONCE] for begin in range(0, len(ended), PUBLISHED_AT_ONCE)]
            await self._meter.wave("published", [self._published(batch) for batch in told])
            self.done += len(ended)

    def _accept(self, sender: str) -> Callable[[], Awaitable[Any]]:
        text = message_text(Mark("0" * TOKEN_LENGTH, 200, 200))
        address = Address(f"http:default:{sender}", "http", "key:default", f"http-{sender}")
        return lambda: self._inbox.accept(NewRun(id=new_id(), address=address, text=text, sender=sender))

    def _claim(self, sender: str, cached: Cached | None) -> Callable[[], Awaitable[Claim]]:
        async def claim() -> Claim:
            got = await self._runs.claim(
                f"http:default:{sender}", worker=self._worker, call_id=new_id(), routes=ROUTES, cached=cached
            )
            if isinstance(got, Claim):
                return got
            raise RuntimeError(f"a claim was refused: {got}")

        return claim

    def _store(self, claim: Claim) -> Callable[[], Awaitable[Any]]:
        return lambda: self._runs.store(
            claim.conversation, worker=self._worker, epoch=claim.epoch, write=final_write(claim)
        )

    def _published(self, ended: Sequence[UUID]) -> Callable[[], Awaitable[Any]]:
        return lambda: self._runs.published(ended, told_within=timedelta(seconds=1))


def final_write(claim: Claim) -> Write:
    """What a worker stores when the answer to a message is its end: the usual case."""
    reply, terminal, cost = reply_text("0" * TOKEN_LENGTH), terminal_id(claim.epoch), RATES.cost(USAGE)
    outcome = {
        "reply": reply,
        "run_id": str(claim.run),
        "session_id": str(claim.session.id),
        "conversation": claim.conversation,
        "sender": claim.sender,
        "source": claim.source,
        "tokens": {"input": USAGE.input, "output": USAGE.output, "cache_read": 0, "cache_write": 0},
        "cost": float(cost),
        "currency": "USD",
        "model": "bench",
        "turns": 1,
        "notices": [],
        "state": "done",
    }
    return Write(
        id=new_id(),
        run=claim.run,
        messages=[{"role": "assistant", "text": reply}],
        settle=Settlement(
            call_id=claim.call_id,
            run=claim.run,
            conversation=claim.conversation,
            session=claim.session.id,
            principal=claim.principal,
            call_type="agentic",
            provider="openai",
            model="bench",
            usage=USAGE,
            rates=(RATES.input, RATES.output, RATES.cache_read, RATES.cache_write),
            cost=cost,
            currency="USD",
            latency=timedelta(seconds=0.2),
        ),
        told=Told(
            0,
            [
                (1, "run", {"run_id": str(claim.run), "attempt": 1, "keep": event_id(claim.epoch, 0, 0)}),
                (len(reply) + 1, "delta", {"text": reply}),
            ],
        ),
        ending=Ending("done", outcome, terminal, session=SessionAfter(2700, "bench", warned=False)),
    )


async def measure(database_url: str, rounds: int) -> tuple[Meter, int]:
    """So many rounds after one that does not count; the meter, and how many runs it has counted."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        meter = Meter(connection, parent_of(connection.info.backend_pid))
        async with open_database(database_url, application="lucyd bench", connections=CONNECTIONS) as database:
            identity = this_process(id=new_id(), service="agent_worker", version="bench")
            await PostgresFleet(database).register(identity)
            work = Work(PostgresInbox(database), PostgresRuns(database), identity.id, meter)
            for number in range(rounds + 1):
                senders = [f"b{number * CONVERSATIONS + each:07d}" for each in range(CONVERSATIONS)]
                seed_conversations(database_url, senders)
                connection.execute("vacuum analyze")
                connection.execute("checkpoint")
                await work.round(senders)
                if number == 0:
                    meter.costs.clear()
                    work.done = 0
                    connection.execute("select pg_stat_reset()")
            await asyncio.sleep(1)  # what Postgres counts, it tells a little later
            meter.tables = connection.execute(TABLES).fetchall()
        return meter, work.done


def report(meter: Meter, runs: int) -> str:
    """Two tables: by kind of statement, and by table."""
    lines = [f"{runs} runs", f"{'per run':<12}{'calls':>8}{'postgres ms':>12}{'python ms':>12}{'WAL bytes':>12}"]
    lines += [cost.row(name, runs) for name, cost in meter.costs.items()]
    lines += [meter.whole().row("all", runs), ""]
    lines.append(f"{'per run':<16}{'inserted':>10}{'updated':>10}{'HOT':>8}{'dead rows':>11}")
    for name, inserted, updated, hot, dead in meter.tables:
        share = f"{hot / updated:>8.0%}" if updated else f"{'-':>8}"
        lines.append(f"{name:<16}{inserted / runs:>10.2f}{updated / runs:>10.2f}{share}{dead:>11}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m bench.store_cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help=f"of {CONVERSATIONS * RUNS_EACH} runs each")
    rounds = parser.parse_args(arguments).rounds
    with (
        tempfile.TemporaryDirectory(prefix="lucyd-bench-", ignore_cleanup_errors=True) as folder,
        open_servers(Path(folder) / "servers") as servers,
    ):
        migrate(servers.database_url)
        meter, runs = run(measure(servers.database_url, rounds))
        sys.stdout.write(report(meter, runs) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
