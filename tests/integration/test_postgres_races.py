"""Everybody wants the same conversation at once: nothing is lost, and nobody waits in a circle."""

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.runs import PUBLISHED, TELLS_AGAIN
from shared.domain.run import CancelAnswer, Claim, RunState, Stored
from shared.errors import LostClaim
from tests.builders import (
    CHAT,
    CONVERSATION,
    asked,
    bodies,
    call,
    chat_message,
    ending,
    final_write,
    new_run,
    results,
    said,
    settlement,
    waiting,
    write,
)
from tests.runs_worlds import NO_TIME, PostgresWorld, with_question, with_tools_open

WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
PATIENCE = 60


class Watched(Database):
    """A pool that tries again after a deadlock, as it does, and remembers it."""

    deadlocks = 0

    async def _ask(self, query: str, parameters: Sequence[Any], give_up_at: float) -> Any:
        try:
            return await super()._ask(query, parameters, give_up_at)
        except psycopg.errors.DeadlockDetected:
            self.deadlocks += 1
            raise


@pytest.fixture
def watched(database: Database) -> Watched:
    return Watched(database._pool)


@pytest.fixture
async def world(watched: Watched) -> PostgresWorld:
    world = PostgresWorld(watched)
    world.me = await world.hire()
    return world


class Town:
    """One conversation, and people and workers that all do at once what comes to their minds."""

    def __init__(self, world: PostgresWorld, seed: int) -> None:
        self.world = world
        self.chance = random.Random(seed)  # noqa: S311 - a test's dice
        self.sent: list[UUID] = []
        self.living: list[UUID] = []
        self.over = asyncio.Event()

    async def writes(self) -> None:
        for number in range(20):
            how = self.chance.choice(["queue", "queue", "steer", "interrupt"])
            sender = self.chance.choice(["anna", "bert"])
            new = chat_message(f"m{number}", when_busy=how, sender=sender, webhook="callback")
            self.sent.append((await self.world.accept(new)).run)
            await asyncio.sleep(self.chance.random() * 0.01)

    async def works(self) -> None:
        """One process after the other."""
        worker = await self.hire()
        while not self.over.is_set():
            claim = await self.world.ask(CHAT, worker=worker, alone=self.chance.random() < 0.5)
            if claim == "fenced":
                worker = await self.hire()
            if not isinstance(claim, Claim):
                await asyncio.sleep(0.005)
                continue
            try:
                await self._works_on(claim, worker)
            except LostClaim:
                continue

    async def _works_on(self, claim: Claim, worker: UUID) -> None:
        world, paid = self.world, settlement(claim)
        if claim.cancel_asked is None and claim.stage == "model" and self.chance.random() < 0.6:
            asking = said("", call("exec"))
            await world.store(claim, write(claim, messages=[asking], settle=paid, step=1, stage="tools"), worker=worker)
            if self.chance.random() < 0.5:
                await world.store(claim, write(claim, waiting=waiting(parts=["May I?"])), worker=worker)
                return
        if self.chance.random() < 0.6:
            done: Any = {"role": "tool_results", "results": []}
            step = write(claim, messages=[done], settle=paid, step=2, stage="model", absorb=True)
            await world.store(claim, step, worker=worker)
        state: RunState = "done" if claim.cancel_asked is None else "cancelled"
        await world.store(claim, final_write(claim, ending=ending(claim, state=state, parts=["x"])), worker=worker)

    async def hire(self) -> UUID:
        self.living.append(await self.world.hire())
        return self.living[-1]

    async def dies(self) -> None:
        while not self.over.is_set():
            await asyncio.sleep(0.1)
            if self.living:
                await self.world.fence(self.living.pop(self.chance.randrange(len(self.living))))

    async def stops(self) -> None:
        while not self.over.is_set():
            if self.sent and self.chance.random() < 0.3:
                await self.world.inbox.cancel(self.chance.choice(self.sent), reason="x")
            await self.world.runs.cancel_overdue(older_than=NO_TIME, limit=9)
            await asyncio.sleep(0.01)

    async def answers(self) -> None:
        while not self.over.is_set():
            for question in await self.world.inbox.questions(self.sent):
                for approval, _ in question.approvals:
                    await self.world.inbox.decide(approval, allows=True, answer="ok", by="anna")
            await asyncio.sleep(0.01)

    async def sees_the_end(self) -> None:
        await asyncio.gather(self.writes(), self.writes())
        while len(await self.world.inbox.outcomes(self.sent)) < len(self.sent):
            await asyncio.sleep(0.02)
        self.over.set()


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whatever_meets_in_one_conversation_every_message_ends_once(
    world: PostgresWorld, watched: Watched, seed: int
) -> None:
    """Accepts, steps, waits, answers, cancels, ends and deaths: none is lost, and no two wait for each other."""
    town = Town(world, seed)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        for one in (town.sees_the_end(), town.stops(), town.answers(), town.dies(), *(town.works() for _ in range(3))):
            tasks.create_task(one)

    assert watched.deadlocks == 0
    assert len(town.sent) == 40
    assert sorted(posted.run for posted in await world.webhooks()) == sorted(town.sent)
    parts = [(row.ordinal, row.part) for row in await world.deliveries()]
    assert len(parts) == len(set(parts))
    assert await world.open_reservations() == set()
    assert await world.ask(CHAT) == "nothing"


async def test_a_store_and_a_fence_never_wait_for_each_other(world: PostgresWorld, watched: Watched) -> None:
    """A worker is taken for dead while its last write is under way; the money is booked once, and the run goes on."""
    for number in range(15):
        name = f"c{number}"
        worker = await world.hire()
        await world.accept(new_run(conversation=name))
        await world.accept(new_run(conversation=name))
        claim = await world.claim(name, worker=worker)
        end = final_write(claim) if number % 2 else write(claim, messages=[said("", call())], settle=settlement(claim))
        got, freed = await asyncio.gather(
            world.written(claim, end, worker=worker), world.fence(worker), return_exceptions=True
        )
        assert freed == [name]
        assert isinstance(got, LostClaim) or not isinstance(got, BaseException)
        heir = await world.hire()
        taken = await world.claim(name, worker=heir)
        if number % 2 and not isinstance(got, LostClaim):
            assert taken.ordinal == 2
        elif not isinstance(got, LostClaim):
            assert [body["role"] for body in bodies(taken)] == ["user", "assistant"]
        assert sum(booked.call_id == claim.call_id for booked in await world.booked()) == 1
        await world.store(taken, final_write(taken), worker=heir)
    assert watched.deadlocks == 0


async def test_who_settles_and_who_fences_take_the_same_order(world: PostgresWorld, database_url: str) -> None:
    """The reservation first, the cost second; else each could hold what the other one wants."""
    await world.accept(new_run())
    claim = await world.claim()
    async with await psycopg.AsyncConnection.connect(database_url) as fence:
        await fence.execute("select 1 from reservations where call_id = %s for update", (claim.call_id,))
        settling = asyncio.create_task(world.runs.settle(settlement(claim)))
        async with asyncio.timeout(5):
            while not await world._database.value(WAITING):
                await asyncio.sleep(0.01)
        await fence.execute("set local lock_timeout = '300ms'")
        await fence.execute("select lucyd_settle_unknown(array[%s::uuid])", (claim.call_id,))
        await fence.commit()
    await settling

    (booked,) = await world.booked()
    assert booked.estimated


@pytest.mark.parametrize("how", ["texts", "buttons", "both"])
async def test_of_many_answers_at_once_one_decides(world: PostgresWorld, watched: Watched, how: str) -> None:
    """A person hammers on the button, and writes; the question was asked once."""
    one = asked()
    claim = await with_question(world, None, one)
    texts = [world.accept(new_run("yes")) for _ in range({"texts": 8, "buttons": 0, "both": 4}[how])]
    buttons = [
        world.inbox.decide(one.id, allows=True, answer="ok", by="anna")
        for _ in range({"texts": 0, "buttons": 8, "both": 4}[how])
    ]
    accepted = asyncio.gather(*texts)
    decided = await asyncio.gather(*buttons)
    merged = [text for text in await accepted if text.state == "merged"]

    assert len(merged) + sum(one.status == "resumed" for one in decided) == 1
    assert {one.status for one in decided} <= {"resumed", "gone"}
    taken = await world.claim()
    assert taken.run == claim.run
    assert [row.state for row in taken.approvals] == ["allowed"]
    stored = await world.written(taken, final_write(taken))
    assert [text.run for text in merged] == list(stored.followers)
    assert watched.deadlocks == 0


async def test_two_that_cancel_and_one_that_ends_find_one_outcome(world: PostgresWorld, watched: Watched) -> None:
    """Each is told what the others did."""
    for _ in range(10):
        accepted = await world.accept(chat_message(webhook="callback"))
        claim = await world.claim(CHAT)
        await world.inbox.cancel(accepted.run, reason="x")
        got = await asyncio.gather(
            world.written(claim, final_write(claim, ending=ending(claim, parts=["done"]))),
            world.runs.cancel_overdue(older_than=NO_TIME, limit=9),
            world.inbox.cancel(accepted.run, reason="y"),
            world.runs.expire(limit=9),
            return_exceptions=True,
        )
        stored, overdue, _, _ = got
        assert isinstance(stored, LostClaim) == bool(overdue)
    assert len(await world.webhooks()) == 10
    assert watched.deadlocks == 0


async def test_a_cancel_that_meets_a_claim_is_heard(world: PostgresWorld) -> None:
    """Either the claim finds nothing, or it finds that it is to end."""
    for _ in range(15):
        accepted = await world.accept(new_run())
        claim, answer = await asyncio.gather(world.ask(), world.inbox.cancel(accepted.run, reason="x"))
        if isinstance(claim, Claim):
            assert answer.status == "asked"
            assert claim.cancel_asked is not None or await world.runs.cancels({CONVERSATION: claim.epoch})
            await world.store(claim, final_write(claim))
        else:
            assert answer.status == "cancelled"


async def test_who_hangs_up_while_their_message_is_taken_in_ends_it_or_is_told_that_it_is_shared(
    world: PostgresWorld,
) -> None:
    """A look before the cancel would find it alone, and end the run that had taken it in meanwhile."""
    found: set[str] = set()
    for turn in range(20):
        claim = await with_tools_open(world)
        other = await world.accept(new_run("and this", when_busy="steer"))
        round_ = write(claim, messages=[results(("c0", "Error: no"))], step=2, stage="model", absorb=True)
        stored: Stored
        answer: CancelAnswer
        if turn % 2:
            stored, answer = await asyncio.gather(
                world.written(claim, round_), world.inbox.hang_up(other.run, reason="Gone.")
            )
        else:
            answer, stored = await asyncio.gather(
                world.inbox.hang_up(other.run, reason="Gone."), world.written(claim, round_)
            )
        assert answer.status == ("shared" if stored.absorbed else "cancelled")
        assert await world.runs.cancels({CONVERSATION: claim.epoch}) == {}
        await world.store(claim, final_write(claim))
        found.add(answer.status)
    assert found <= {"shared", "cancelled"}


async def test_what_is_noted_as_told_while_everything_is_told_again_does_not_count(
    world: PostgresWorld, database_url: str
) -> None:
    """Redis was emptied after it was told: noted all the same, the end of the run would be missing there for ever."""
    await world.accept(new_run())
    claim = await world.claim()
    await world.store(claim, final_write(claim))
    await world.runs.tell_again(ended_within=timedelta(hours=1))
    async with await psycopg.AsyncConnection.connect(database_url) as peer:  # is about to have everything told again
        await peer.execute("update settings set updated_at = now() - interval '1 hour' where key = 'redis_refilled'")
        await peer.commit()
        await peer.execute(TELLS_AGAIN)
        noting = asyncio.create_task(world.runs.published([claim.run], told_within=timedelta(seconds=5)))
        await asyncio.wait({noting}, timeout=0.3)
        await peer.commit()
    await noting
    assert [ended.run for ended in await world.runs.unpublished(older_than=NO_TIME, limit=9)] == [claim.run]


async def test_telling_everything_again_waits_for_what_is_just_noted_as_told(
    world: PostgresWorld, database_url: str
) -> None:
    """Else it would not see that this is to be told again too."""
    await world.accept(new_run())
    claim = await world.claim()
    await world.store(claim, final_write(claim))
    await world.runs.tell_again(ended_within=timedelta(hours=1))
    async with await psycopg.AsyncConnection.connect(database_url) as peer:
        noted = await peer.execute(PUBLISHED, ([claim.run], NO_TIME))
        assert noted.rowcount == 1
        telling = asyncio.create_task(world.runs.tell_again(ended_within=timedelta(hours=1)))
        await asyncio.wait({telling}, timeout=0.3)
        await peer.commit()
    assert await telling == 1
    assert [ended.run for ended in await world.runs.unpublished(older_than=NO_TIME, limit=9)] == [claim.run]
