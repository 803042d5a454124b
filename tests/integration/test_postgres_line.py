"""A statement by the short way is the same as by psycopg's own; whatever happens on it, the line says so or goes on."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from shared.adapters.postgres.line import PREPARED_AT, Line

PREPARED = "select count(*) from pg_prepared_statements where statement like %s"


@pytest.fixture
async def line(database_url: str) -> AsyncIterator[Line]:
    connection = await Line.connect(database_url, autocommit=True)
    yield connection
    await connection.close()


@pytest.mark.parametrize(
    ("cast", "value"),
    [
        ("text", "ä\nb"),
        ("text", None),
        ("uuid", uuid4()),
        ("uuid[]", [uuid4(), uuid4()]),
        ("text[]", []),
        ("smallint", 7),
        ("bigint", 2**40),
        ("boolean", True),
        ("bytea", b"\0\xff"),
        ("numeric", Decimal("0.750")),
        ("interval", timedelta(days=1, seconds=0.25)),
        ("timestamptz", datetime(2026, 5, 21, 12, tzinfo=UTC)),
        ("jsonb", '{"a": [1, 2.5, null, "x"]}'),
    ],
)
async def test_values_come_and_go_as_with_psycopg(line: Line, database_url: str, cast: str, value: Any) -> None:
    """All other code was written for its conversions."""
    query = f"select %s::{cast}, 1 where '%%' = chr(37)"
    async with await psycopg.AsyncConnection.connect(database_url) as other:
        expected = await (await other.execute(query.encode(), (value,))).fetchall()
    for _ in range(5):  # not prepared yet, being prepared, prepared
        assert await line.ask(query, (value,)) == expected


@pytest.mark.parametrize(
    ("cast", "value"),
    [("bytea", b"\0\xff"), ("bytea[]", [b"\0\xff", b"", b"{\\x00}"]), ("bytea[]", []), ("bytea", None)],
)
async def test_a_value_may_be_sent_as_bytes(line: Line, cast: str, value: Any) -> None:
    """Megabytes would be twice as much as text, and seconds of work before anything is sent."""
    for _ in range(5):
        assert await line.ask(f"select %b::{cast}, %s::text", (value, "x")) == [(value, "x")]


async def test_a_statement_without_rows_gives_none(line: Line) -> None:
    """An update says nothing."""
    assert await line.ask("create table things (n integer)", ()) == []
    assert await line.ask("insert into things select generate_series(1, 3)", ()) == []
    assert await line.ask("select n from things order by n", ()) == [(1,), (2,), (3,)]
    assert await line.ask("select n from things where n > %s", (3,)) == []


async def test_what_is_sent_again_and_again_is_prepared(line: Line) -> None:
    """Postgres would plan it anew each time."""
    for _ in range(4):
        await line.ask("select 'often', %s::text", ("x",))
    await line.ask("select 'once', %s::text", ("x",))
    assert await line.ask(PREPARED, ("%often%",)) == [(1,)]
    assert await line.ask(PREPARED, ("%once%",)) == [(0,)]


async def test_a_mistake_is_named_and_the_line_goes_on(line: Line) -> None:
    """One wrong statement must not cost a connection."""
    for wrong, values, error in [
        ("select %s", (), psycopg.ProgrammingError),
        ("select '5%'", (), psycopg.ProgrammingError),
        ("select %(name)s", ("x",), psycopg.ProgrammingError),
        ("select 1/0", (), psycopg.errors.DivisionByZero),
        ("select nothing", (), psycopg.errors.UndefinedColumn),
    ]:
        for _ in range(4):
            with pytest.raises(error):
                await line.ask(wrong, values)
        assert await line.ask("select 1", ()) == [(1,)]


async def test_more_than_the_socket_takes_at_once_goes_both_ways(line: Line) -> None:
    """A transcript may have megabytes."""
    text = "0123456789abcdef" * 500_000
    assert await line.ask("select %s::text || 'x', length(%s::text)", (text, text)) == [(text + "x", len(text))]


async def test_who_is_cancelled_leaves_a_line_that_is_free(line: Line) -> None:
    """A client that hangs up must not cost a connection, nor leave its answer to the next one who asks."""
    for _ in range(4):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await line.ask("select pg_sleep(20), 'late'", ())
        assert not line.closed
        assert await line.ask("select 'next'", ()) == [("next",)]


async def test_a_line_that_the_server_ends_says_so(line: Line, database_url: str) -> None:
    """Also one that nobody was asking on at that moment."""
    (pid,) = (await line.ask("select pg_backend_pid()", ()))[0]
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        await other.execute("select pg_terminate_backend(%s, 2000)", (pid,))
    async with asyncio.timeout(5):
        while not line.closed:
            await asyncio.sleep(0.01)
    for _ in range(2):
        with pytest.raises(psycopg.OperationalError):
            await line.ask("select 1", ())


async def test_who_waits_on_a_line_that_is_hung_up_hears_at_once(line: Line) -> None:
    """This is how a query that takes too long ends."""
    waiting = asyncio.create_task(line.ask("select pg_sleep(20)", ()))
    await asyncio.sleep(0.2)
    line.hang_up()
    async with asyncio.timeout(2):
        with pytest.raises(psycopg.OperationalError):
            await waiting


async def test_a_statement_that_is_no_question_ends_the_line(line: Line) -> None:
    """A COPY would be answered for ever; nobody here asks for one."""
    async with asyncio.timeout(5):
        with pytest.raises(psycopg.Error):
            await line.ask("copy (select 1) to stdout", ())
        while not line.closed:
            await asyncio.sleep(0.01)


async def test_who_is_cancelled_while_a_statement_is_prepared_leaves_a_line_that_is_free(line: Line) -> None:
    """The server may know the statement by then; its name must not be given to the next one."""
    for number in range(6):
        query = f"select 'n{number}', %s::text"
        for _ in range(PREPARED_AT - 1):
            await line.ask(query, ("x",))
        asking = asyncio.create_task(line.ask(query, ("x",)))
        await asyncio.sleep(0)
        time.sleep(0.05)  # it is answered, and nobody has heard it yet
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await line.ask(query, ("x",)) == [(f"n{number}", "x")]


async def test_who_is_cancelled_is_cancelled_also_when_the_server_does_not_stop(line: Line) -> None:
    """Somebody who waits for the end of a task that was cancelled must not get an error instead."""
    (pid,) = (await line.ask("select pg_backend_pid()", ()))[0]
    asking = asyncio.create_task(line.ask("select pg_sleep(20)", ()))
    await asyncio.sleep(0.2)
    try:
        os.kill(pid, signal.SIGSTOP)
    except (ProcessLookupError, PermissionError):
        pytest.skip("the server is not a process of ours")
    try:
        asking.cancel()
        await asyncio.wait({asking}, timeout=10)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert asking.cancelled()
    assert line.closed
