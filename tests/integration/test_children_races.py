"""Parents, children and whoever ends them, all at once: nobody waits in a circle, and nobody is forgotten."""

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from shared.adapters.postgres.pool import Database
from shared.domain.run import Claim, Reservation
from shared.errors import LostClaim
from shared.ids import new_id
from tests.builders import ROUTE, ending, final_write, new_run, results, said, settlement, write
from tests.contract.test_children_contract import asking, spawn, wait_for_children
from tests.runs_worlds import PostgresWorld

PARENTS = 8
CHILDREN = 3
SECONDS = 60


class Watched(Database):
    """A pool that remembers deadlocks."""

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


async def _family(world: PostgresWorld, number: int) -> tuple[Claim, list[str]]:
    """A run with its children spawned, and where they stand."""
    new = new_run(conversation=f"http:key:{number}")
    await world.accept(new)
    parent = await asking(world, await world.claim(new.address.conversation), CHILDREN)
    answers = [await spawn(world, parent, index, most_open=1000) for index in range(CHILDREN)]
    return parent, [answer.wake[0] for answer in answers]


async def _work(world: PostgresWorld, conversation: str, chance: random.Random, pause: float = 0.1) -> None:
    await asyncio.sleep(chance.random() * pause)
    claim = await world.ask(conversation)
    if not isinstance(claim, Claim) or claim.child is None:
        return
    await asyncio.sleep(chance.random() * pause)
    try:
        await world.store(claim, final_write(claim, "an answer"))
    except LostClaim:
        return
    await world.children.collect(claim.child.parent)


async def _suspend(world: PostgresWorld, parent: Claim, chance: random.Random) -> None:
    await asyncio.sleep(chance.random() / 10)
    try:
        await wait_for_children(world, parent)
    except LostClaim:
        return
    await world.children.collect(parent.run)


async def _go_on(world: PostgresWorld, parent: Claim) -> None:
    """The parent ends with what its children said, once all have."""
    claim = await world.ask(parent.conversation)
    if isinstance(claim, Claim) and claim.run == parent.run:
        assert [effect.state for effect in claim.effects] == ["done"] * CHILDREN
        done = results(*((effect.call_id, "x") for effect in claim.effects))
        await world.store(claim, write(claim, messages=[done, said("so it is")], ending=ending(claim)))


async def _end(world: PostgresWorld, parent: Claim, chance: random.Random) -> None:
    """A cancel, a reset, a cancel of a child, or nothing."""
    await asyncio.sleep(chance.random() / 8)
    match chance.randrange(4):
        case 0:
            await world.inbox.cancel(parent.run, reason="enough")
        case 1:
            await world.inbox.reset(parent.conversation, new_id(), source="http", sender="x")
        case 2:
            child = await world.run_in(f"system:sub:{parent.run}:1:{chance.randrange(CHILDREN)}")
            await world.inbox.cancel(child, reason="enough")


async def _sweep(world: PostgresWorld, chance: random.Random) -> None:
    for _ in range(6):
        await asyncio.sleep(chance.random() / 20)
        await world.children.mind(limit=100)
        await world.runs.expire(limit=100)


@pytest.mark.parametrize("seed", range(3))
async def test_ends_from_all_sides_meet_without_a_deadlock(world: PostgresWorld, watched: Watched, seed: int) -> None:
    """Afterwards each parent has ended or has all its answers, and no child is left without a parent."""
    chance = random.Random(seed)  # noqa: S311 - a test's dice
    families = [await _family(world, number) for number in range(PARENTS)]
    deeds = [_sweep(world, chance) for _ in range(3)]
    for parent, conversations in families:
        deeds += [_work(world, conversation, chance) for conversation in conversations]
        deeds += [_suspend(world, parent, chance), _end(world, parent, chance)]
    chance.shuffle(deeds)
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*deeds)
        for _ in range(8):  # what nobody happened to take, and what a cancel asks of its owner
            await world.children.mind(limit=100)
            await world.runs.cancel_overdue(older_than=timedelta(0), limit=100)
            for parent, conversations in families:
                for conversation in conversations:
                    await _work(world, conversation, chance, pause=0)
                await _go_on(world, parent)
    assert watched.deadlocks == 0
    assert await watched.rows("select run from children where collected_at is null") == []
    ended = {found.run for found in await world.inbox.outcomes([parent.run for parent, _ in families])}
    assert ended == {parent.run for parent, _ in families}


class Till:
    """What a family may pay, what it pays, and how many of its calls are out."""

    def __init__(self, root: Claim, limit: Decimal) -> None:
        self.root = root.run
        self.limit = limit
        self.paid = Decimal(0)
        self.out = self.most_out = 0


async def _spend(world: PostgresWorld, claim: Claim, till: Till, chance: random.Random) -> None:
    """Calls, one after the other, until the money is spent; most cost less than they may."""
    call = claim.call_id
    while True:
        purse = await world.children.let_through(call, run=claim.run, root=till.root, limit=till.limit)
        if purse.leave == "none":
            return
        if purse.leave == "wait":
            await asyncio.sleep(0.01)
            continue
        assert purse.leave == "given"
        till.out += 1
        till.most_out = max(till.most_out, till.out)
        await asyncio.sleep(chance.random() / 50)
        cost = chance.choice([Decimal("0.1"), Decimal("0.25"), ROUTE.worst_case])
        next_call = Reservation(new_id(), ROUTE)
        paid = settlement(claim, call, cost=cost)
        till.out, till.paid, call = till.out - 1, till.paid + cost, next_call.call_id
        await world.store(claim, write(claim, settle=paid, reserve=next_call))


@pytest.mark.parametrize("seed", range(3))
async def test_a_family_passes_its_limit_by_one_call_at_most(world: PostgresWorld, watched: Watched, seed: int) -> None:
    """However many of its members call at once, and whatever calls cost in the end; and they do call at once."""
    chance = random.Random(seed)  # noqa: S311 - a test's dice
    parent, conversations = await _family(world, 0)
    till = Till(parent, Decimal(3))
    till.paid = settlement(parent).cost
    claims = [await world.claim(conversation) for conversation in conversations]
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*(_spend(world, claim, till, chance) for claim in claims))
    assert till.limit <= till.paid < till.limit + ROUTE.worst_case
    assert till.most_out > 1
    assert watched.deadlocks == 0
