"""What a worker says of its suspicion when its beat finds that peers count it as dead."""

import asyncio
import threading
import time

import psycopg
import pytest

from shared.adapters.postgres.fleet import BUSY, beating
from shared.adapters.postgres.pool import Database
from tests.builders import new_run
from tests.chaos.blocking_tools import hold_gil
from tests.runs_worlds import PostgresWorld


@pytest.mark.parametrize(("held", "level"), [(0.0, 0), (4 * BUSY.total_seconds(), 1)])
async def test_who_was_stopped_takes_the_blame_back_and_who_was_busy_does_not(
    database: Database, database_url: str, held: float, level: int
) -> None:
    """A message that holds every thread of a process looks like a process that was stopped; it must end."""
    world = PostgresWorld(database)
    world.me = await world.hire()
    await world.accept(new_run())
    claim = await world.claim()
    fenced = threading.Event()
    with beating(database_url, world.me, on_fenced=fenced.set):
        _wait_for_a_beat(database_url)
        await world.fence()
        if held:
            hold_gil(held)
        assert fenced.wait(10)
    with psycopg.connect(database_url) as connection:
        row = connection.execute("select suspected from runs where id = %s", (claim.run,)).fetchone()
    assert row == (level,)


def _wait_for_a_beat(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as database:
        for _ in range(100):
            row = database.execute("select max(beat) from workers").fetchone()
            if row is not None and row[0]:
                return
            time.sleep(0.05)
    raise AssertionError("no beat in 5 seconds")


async def test_a_worker_that_has_said_goodbye_is_not_fenced(database: Database, database_url: str) -> None:
    """Between its goodbye and its end a beat may fall; it must not make it leave with its last words unsaid."""
    world = PostgresWorld(database)
    world.me = await world.hire()
    fenced = threading.Event()
    await world.fleet.fence(world.me, beat=None, state="stopped")
    with beating(database_url, world.me, on_fenced=fenced.set):
        assert not await asyncio.to_thread(fenced.wait, 1)
