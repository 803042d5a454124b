"""Who waits for whom in Postgres: claims, fences and accepts that meet in the middle."""

import asyncio
from datetime import timedelta

import psycopg

from shared.adapters.postgres.pool import Database
from shared.ids import new_id
from tests.builders import CONVERSATION, final_write, new_run
from tests.runs_worlds import PostgresWorld

NO_TIME = timedelta(0)
LOCK_WORKER = "select 1 from workers where id = %s for update"
LOCK_CONVERSATION = "select 1 from conversations where key = %s for no key update nowait"
FENCE = "select lucyd_fence_2(%s, null, 'fenced', 'x')"
ROUTES = '{"*": {"model": "m", "worst_case": "1", "currency": "USD"}}'
CLAIM = "select lucyd_claim_2(%s, %s, %s, %s, 2, %s, null, null, null, true, false, '0')"
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
        assert list(await fence or ()) == [CONVERSATION]
    assert await world.open_reservations() == set()
    (booked,) = await world.booked()
    assert booked.estimated


async def test_one_locked_conversation_does_not_stop_the_deadlines_of_all(
    database: Database, database_url: str
) -> None:
    """Somebody looks at a row by hand in a transaction, and no run in the house would end any more."""
    world = await _world(database)
    late = [await world.accept(new_run(conversation=name, deadline=NO_TIME)) for name in ("a", "b", "c")]
    await world.wait(0.01)
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        await other.execute(LOCK_CONVERSATION, ("b",))
        async with asyncio.timeout(5):
            ended = await world.runs.expire(limit=2)
        assert set(ended) == {late[0].run, late[2].run}
        assert list(await world.runs.expire(limit=1)) == []
        await other.rollback()
    assert list(await world.runs.expire(limit=1)) == [late[1].run]


async def test_a_worker_is_fenced_though_one_of_its_conversations_is_locked(
    database: Database, database_url: str
) -> None:
    """Else a worker that died in the middle of a write would keep everything that it had."""
    world = await _world(database)
    for name in ("a", "b"):
        await world.accept(new_run(conversation=name))
        await world.claim(name)
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        await other.execute(LOCK_CONVERSATION, ("a",))
        async with asyncio.timeout(5):
            freed = await world.fence()
        assert sorted(freed or ()) == ["a", "b"]
        await other.rollback()
    assert await world.open_reservations() == set()
    heir = await world.hire()
    for name in ("a", "b"):
        assert (await world.claim(name, worker=heir)).attempts == 2


async def test_a_store_locks_nothing_before_the_conversation(database: Database, database_url: str) -> None:
    """Who holds the conversation may want the reservation next; a store that held it already would wait in a circle."""
    world = await _world(database)
    claim = await world.claim()
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        await other.execute(LOCK_CONVERSATION, (CONVERSATION,))
        storing = asyncio.create_task(world.store(claim, final_write(claim)))
        await _somebody_waits(database)
        await other.execute("select 1 from reservations where call_id = %s for update nowait", (claim.call_id,))
        await other.rollback()
        assert await storing is False
    assert await world.open_reservations() == set()
