"""Leadership as a lock that a session of Postgres holds: it ends with the connection, and Postgres knows who has it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any, LiteralString

import psycopg

from shared.adapters.postgres.pool import conninfo
from shared.errors import TryLater

SPACE = 0x6C756379
"""The first half of the lock's number; the second half names what is led."""

SCHEDULER = 1

TRY = "select pg_try_advisory_lock(%s, %s)"
GIVE_BACK = "select pg_advisory_unlock(%s, %s)"
HELD = """
select exists (select 1 from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and granted
               and classid::bigint = %s and objid::bigint = %s and objsubid = 2)
"""
# A leader that vanished without a word must not keep the lock for the two hours that TCP allows.
KEEPALIVE = (
    "select set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '3', false), "
    "set_config('tcp_keepalives_count', '3', false)"
)

LOOK_EVERY = timedelta(seconds=1)
ANSWER_WITHIN = timedelta(seconds=3)
CONNECT_WITHIN = timedelta(seconds=6)

Connection = psycopg.AsyncConnection[Any]


class HeldLock:
    """``Term`` of the scheduler's ports."""

    def __init__(self, connection: Connection, number: tuple[int, int]) -> None:
        self._connection = connection
        self._number = number

    async def lost(self) -> None:
        """Asks Postgres every second, and takes silence for a no."""
        with contextlib.suppress(TryLater):
            while await _ask(self._connection, HELD, self._number):  # noqa: ASYNC110 - Postgres has no such event
                await asyncio.sleep(LOOK_EVERY.total_seconds())


class PostgresLeadership:
    """``Leadership`` of the scheduler's ports. It shares its connection with nobody: who has that has the lock."""

    def __init__(self, url: str, *, what: int = SCHEDULER) -> None:
        self._url = url
        self._number = (SPACE, what)
        self._connection: Connection | None = None

    @contextlib.asynccontextmanager
    async def term(self) -> AsyncIterator[HeldLock | None]:
        """See ``Leadership.term``."""
        connection = self._connection or await self._connect()
        self._connection = connection
        try:
            won = await _ask(connection, TRY, self._number)
        except TryLater:
            await self.close()
            raise
        if not won:
            yield None  # the connection is kept for the next try
            return
        try:
            yield HeldLock(connection, self._number)
        finally:
            with contextlib.suppress(TryLater):
                await _ask(connection, GIVE_BACK, self._number)  # a standby need not wait for the server to notice
            await self.close()  # the surest way to give a session's lock back

    async def close(self) -> None:
        """Give the connection up, and the lock with it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _connect(self) -> Connection:
        connection: Connection | None = None
        try:
            async with asyncio.timeout(CONNECT_WITHIN.total_seconds()):
                connection = await psycopg.AsyncConnection.connect(
                    conninfo(self._url, application="lucyd leadership"), autocommit=True, prepare_threshold=None
                )
                await connection.execute(KEEPALIVE)
        except (psycopg.OperationalError, TimeoutError) as fault:
            if connection is not None:
                await connection.close()
            raise TryLater("Postgres can't be reached", after=1.0) from fault
        return connection


async def _ask(connection: Connection, query: LiteralString, parameters: Sequence[Any]) -> bool:
    """One boolean, or ``TryLater`` when it does not come in time."""

    async def ask() -> bool:
        row = await (await connection.execute(query, parameters)).fetchone()
        return bool(row and row[0])

    asking = asyncio.create_task(ask())
    asking.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody may be left to hear of it
    try:
        # Not a timeout around it: psycopg answers a cancellation by talking to the very server that does not answer.
        await asyncio.wait({asking}, timeout=ANSWER_WITHIN.total_seconds())
        if not asking.done():
            raise TryLater("Postgres does not answer", after=1.0)
        return asking.result()
    except psycopg.OperationalError as fault:
        raise TryLater("Postgres can't be reached", after=1.0) from fault
    finally:
        if not asking.done():
            asking.cancel()
