"""Who waits for whom in Postgres: claims, fences and accepts that meet in the middle."""

import asyncio

import psycopg

from shared.adapters.postgres.pool import Database
from shared.ids import new_id
from tests.builders import CONVERSATION, new_run
from tests.runs_worlds import PostgresWorld

LOCK_WORKER = "select 1 from workers where id = %s for update"
LOCK_CONVERSATION = "select 1 from conversations where key = %s for no key update nowait"
FENCE = "select lucyd_fence(%s, null, 'fenced')"
ROUTES = '{"*": {"model": "m", "worst_case": "1", "currency": "USD"}}'
CLAIM = "select lucyd_claim(%s, %s, %s, %s, 1, %s, null, null, null)"
WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


async def _world(database: Database) -> PostgresWorld:
    world = PostgresWorld(database)
    world.me = await world.hire()
    await world.accept(new_run())
    return world


async def _somebody_waits(database: Database) -> None:
    async with asyncio.timeout(5):
        while not await database.value(WAITING):
            await asyncio.sleep(0.01)


async def test_a_claim_and_a_fence_never_wait_for_each_other(database: Database, database_url: str) -> None:
    """Postgres would end one of them after a second; the lock order is why there is nothing to end."""
    world = await _world(database)
    async with await psycopg.AsyncConnection.connect(database_url) as fence:
        await fence.execute(LOCK_WORKER, (world.me,))
        claim = asyncio.create_task(world.ask())
        await _somebody_waits(database)
        await fence.execute(LOCK_CONVERSATION, (CONVERSATION,))  # the waiting claim must not hold it yet
        await fence.rollback()
        assert not isinstance(await claim, str)


async def test_a_claim_that_met_a_fence_finds_itself_fenced(database: Database, database_url: str) -> None:
    """A claim that was asked before the fence was committed must not be granted after it."""
    world = await _world(database)
    async with await psycopg.AsyncConnection.connect(database_url) as fence:
        await fence.execute(FENCE, (world.me,))
        claim = asyncio.create_task(world.ask())
        await _somebody_waits(database)
        await fence.commit()
        assert await claim == "fenced"


async def test_a_fence_that_met_a_claim_frees_what_was_claimed(database: Database, database_url: str) -> None:
    """A claim that was committed after the fence had begun must not survive it."""
    world = await _world(database)
    async with await psycopg.AsyncConnection.connect(database_url) as claim:
        await claim.execute(CLAIM, (world.me, CONVERSATION, new_id(), new_id(), ROUTES))
        fence = asyncio.create_task(world.fence())
        await _somebody_waits(database)
        await claim.commit()
        assert list(await fence) == [CONVERSATION]
    assert await world.open_reservations() == set()
    (booked,) = await world.booked()
    assert booked.estimated
