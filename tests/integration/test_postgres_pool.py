"""What a query does when Postgres hangs, or a row stays locked: it answers in time, or waits as long as it may."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from shared.adapters.postgres.pool import Database, open_database
from shared.errors import TryLater

SLACK = 1.5


class Line:
    """A relay to Postgres. Held, it takes bytes and connections and passes nothing on, like a stopped server."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._passing = asyncio.Event()
        self._passing.set()
        self._tasks: set[asyncio.Task[None]] = set()

    def hold(self) -> None:
        self._passing.clear()

    def release(self) -> None:
        self._passing.set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        writers = [writer]
        try:
            await self._passing.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            writers.append(far_writer)
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._pass_on(reader, far_writer))
                ways.create_task(self._pass_on(far_reader, writer))
        except (asyncio.CancelledError, OSError):
            pass  # the test is over; asyncio's server would log it as a fault
        finally:
            for one in writers:
                one.close()
                with contextlib.suppress(OSError):
                    await one.wait_closed()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                await self._passing.wait()
                writer.write(piece)
                await writer.drain()
        writer.close()

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
def line(database_url: str) -> Line:
    parts = urlsplit(database_url)
    return Line(parts.hostname or "127.0.0.1", parts.port or 5432)


@pytest.fixture
async def over_line(line: Line, database_url: str) -> AsyncIterator[Database]:
    """A pool of two connections that go over the line."""
    server = await asyncio.start_server(line.connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    parts = urlsplit(database_url)
    user = parts.netloc.rpartition("@")[0]
    url = urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{port}"))
    async with open_database(url, application="lucyd pool test", connections=2) as opened:
        yield opened
    server.close()
    await line.end()


async def test_a_postgres_that_hangs_is_given_up_in_time(line: Line, over_line: Database) -> None:
    """The server's own timeouts hang with it; a client that asked for two seconds has long gone after thirty."""
    assert await over_line.value("select 1") == 1
    line.hold()
    for patience in (1.0, 0.3):  # the first with a connection in hand, the others without one
        began = time.monotonic()
        asked = [over_line.value("select 1", patience=timedelta(seconds=patience)) for _ in range(4)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(answer) for answer in answers] == [TryLater] * 4
        assert time.monotonic() - began < patience + SLACK


async def test_after_a_hang_the_pool_has_all_its_connections(line: Line, over_line: Database) -> None:
    """A connection that was given up must neither stay lost nor bring the old answer to the next question."""
    held = [over_line.value("select pg_sleep(0.2)") for _ in range(2)]
    await asyncio.gather(*held)
    line.hold()
    late = [over_line.value("select 'late'", patience=timedelta(seconds=0.3)) for _ in range(3)]
    assert all(isinstance(answer, TryLater) for answer in await asyncio.gather(*late, return_exceptions=True))
    line.release()

    patience = timedelta(seconds=20)
    asked = [
        over_line.value("select %s::int + 0 * length(pg_sleep(0.3)::text)", (n,), patience=patience) for n in (1, 2)
    ]
    assert await asyncio.gather(*asked) == [1, 2]
    began = time.monotonic()
    asked = [over_line.value("select pg_sleep(1.5)", patience=patience) for _ in range(2)]
    await asyncio.gather(*asked)
    assert time.monotonic() - began < 2.9  # side by side, so both connections are there


async def test_a_query_that_is_broken_off_while_postgres_hangs_ends(line: Line, over_line: Database) -> None:
    """A worker that stops must not wait for a server that does not answer."""
    await over_line.value("select 1")
    line.hold()
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await over_line.value("select 1", patience=timedelta(seconds=60))
    assert time.monotonic() - began < 1.3 + SLACK


async def test_a_row_that_stays_locked_is_waited_for_as_long_as_patience_lasts(
    database: Database, database_url: str
) -> None:
    """A step that was paid for must not be thrown away because a backup held a row for a moment."""
    await database.rows("create table things (name text primary key)")
    await database.rows("insert into things values ('x')")

    change = "with s as materialized (select set_config('lock_timeout', '200ms', true)) update things set name = 'y'"
    change += " from s returning 1"
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        await other.execute("select 1 from things for update")
        waiting = asyncio.create_task(database.value(change, patience=timedelta(seconds=10)))
        await asyncio.sleep(1)
        assert not waiting.done()
        await other.rollback()
        assert await waiting == 1

        await other.execute("select 1 from things for update")
        began = time.monotonic()
        with pytest.raises(TryLater, match="too long"):
            await database.value(change, patience=timedelta(seconds=1.5))
        assert time.monotonic() - began < 1.5 + SLACK
        await other.rollback()


async def test_a_statement_that_was_stopped_is_asked_for_again(database: Database) -> None:
    """Postgres was slow once; that says nothing about the next try."""
    slow_once = "select case when nextval('tries') = 1 then pg_sleep(5)::text else 'there' end"
    await database.rows("create sequence tries")
    asked = asyncio.create_task(database.value(slow_once, patience=timedelta(seconds=10)))
    async with asyncio.timeout(5):
        while not await database.value(
            "select count(pg_cancel_backend(pid)) from pg_stat_activity where query = %s and wait_event = 'PgSleep'"
            " and datname = current_database()",
            (slow_once,),
        ):
            await asyncio.sleep(0.02)
        assert await asked == "there"


async def test_a_query_that_nobody_waits_for_any_more_ends_in_the_server_too(
    database: Database, database_url: str
) -> None:
    """Else those who ask again and again would fill Postgres with their forsaken questions."""
    await database.rows("create table things as select 1 as n")
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        await other.execute("lock table things")
        with pytest.raises(TryLater):
            await database.rows("update things set n = 2", patience=timedelta(seconds=0.3))
        waiting = (
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        )
        async with asyncio.timeout(8):
            while await database.value(waiting):
                await asyncio.sleep(0.05)
        await other.rollback()
    assert await database.value("select n from things") == 1


async def test_the_connection_that_came_back_last_is_lent_first(database_url: str) -> None:
    """After a burst one warm backend does the work of few, instead of all of them in turn; the others fall idle."""
    async with open_database(database_url, application="test", connections=4) as database:
        burst = [database.rows("select pg_backend_pid(), pg_sleep(0.2)") for _ in range(4)]
        backends = {row[0] for rows in await asyncio.gather(*burst) for row in rows}
        later = {await database.value("select pg_backend_pid()") for _ in range(8)}
    assert len(backends) > 1
    assert len(later) == 1
    assert later <= backends
