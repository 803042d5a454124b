"""Connections to Postgres, and the one way every query goes: bounded, and tried again when a connection breaks.

Every query here is a single statement that may safely be sent twice (reads, and functions that look for their own id
first), so a broken connection, also one broken in COMMIT, is answered by asking again on a new one. So is a row that
stayed locked, and a statement that the server stopped.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import orjson
import psycopg
import psycopg_pool
from psycopg.conninfo import make_conninfo
from psycopg.types.json import set_json_loads

from shared.adapters.postgres.line import Line, Row
from shared.errors import ConfigError, TryLater

set_json_loads(orjson.loads)

STATEMENT_TIMEOUT = timedelta(seconds=30)
LOCK_TIMEOUT = timedelta(seconds=10)
ONE_TRY = timedelta(seconds=35)
"""How long an answer may take: a server that has not kept its own timeouts by then hangs."""

STILL_THERE_EVERY = timedelta(seconds=1)
"""How often the server looks whether the one who asked is still there, also while it waits for a lock."""

JUST_NOW = 2.0
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0


class _HotPool(psycopg_pool.AsyncConnectionPool[Line]):
    """Lends the connection that came back last: its backend's caches are warm, and those that are not needed fall idle
    and are closed. The library's own takes turns, so that each burst keeps all of them busy for ever."""

    async def _get_ready_connection(self, timeout: float | None) -> Line | None:
        self._pool.rotate(1)
        return await super()._get_ready_connection(timeout)


class Database:
    """A pool that forgets broken connections. ``patience`` is how long a query may be tried before ``TryLater``."""

    def __init__(self, pool: psycopg_pool.AsyncConnectionPool[Line]) -> None:
        self._pool = pool
        self._answered_at = -JUST_NOW
        self._expected: dict[Line, float] = {}
        self._watch: asyncio.TimerHandle | None = None

    async def rows(
        self, query: str, parameters: Sequence[Any] = (), *, patience: timedelta = timedelta(seconds=2)
    ) -> list[Row]:
        """All rows of one statement, committed when this returns.

        Raises ``TryLater`` when Postgres did not answer within ``patience``, and psycopg's own errors for the rest.
        """
        give_up_at = time.monotonic() + patience.total_seconds()
        pause = FIRST_PAUSE
        while True:
            try:
                return await self._ask(query, parameters, give_up_at)
            except (psycopg.OperationalError, psycopg_pool.PoolTimeout) as fault:
                if time.monotonic() + pause >= give_up_at:
                    raise TryLater(self._reason(fault), after=1.0) from fault
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _reason(self, fault: Exception) -> str:
        slow = isinstance(fault, (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable))
        # No connection was free, but others were answered a moment ago: it is there, and has much to do.
        slow |= isinstance(fault, psycopg_pool.PoolTimeout) and time.monotonic() - self._answered_at < JUST_NOW
        return "Postgres took too long to answer" if slow else "Postgres can't be reached"

    async def _ask(self, query: str, parameters: Sequence[Any], give_up_at: float) -> list[Row]:
        connection = await self._pool.getconn(timeout=max(0.05, give_up_at - time.monotonic()))
        within = min(max(0.05, give_up_at - time.monotonic()), ONE_TRY.total_seconds())
        self._expect(connection, within)
        try:
            rows = await connection.ask(query, parameters)
            self._answered_at = time.monotonic()
            return rows
        finally:
            del self._expected[connection]
            # Autocommit: there is nothing to commit or to roll back. A broken connection is replaced by the pool.
            await self._pool.putconn(connection)

    def _expect(self, connection: Line, within: float) -> None:
        """Hang up when no answer is there in time. One timer for all: hardly any of them is ever needed."""
        loop = asyncio.get_running_loop()
        self._expected[connection] = at = loop.time() + within
        if self._watch is None or at < self._watch.when():
            if self._watch is not None:
                self._watch.cancel()
            self._watch = loop.call_at(at, self._look)

    def _look(self) -> None:
        loop, self._watch = asyncio.get_running_loop(), None
        for connection, at in self._expected.items():
            if at <= loop.time():
                connection.hang_up()
        later = [at for at in self._expected.values() if at > loop.time()]
        if later:
            self._watch = loop.call_at(min(later), self._look)

    async def value(
        self, query: str, parameters: Sequence[Any] = (), *, patience: timedelta = timedelta(seconds=2)
    ) -> Any:
        """The one value of the one row."""
        rows = await self.rows(query, parameters, patience=patience)
        return rows[0][0] if rows else None


def conninfo(url: str, *, application: str) -> str:
    """The connection string with our own bounds added; what the URL says itself wins."""
    bounds = {
        "connect_timeout": "5",
        "keepalives_idle": "10",
        "tcp_user_timeout": "10000",
        "application_name": application,
        "options": f"-c statement_timeout={int(STATEMENT_TIMEOUT.total_seconds() * 1000)}"
        f" -c lock_timeout={int(LOCK_TIMEOUT.total_seconds() * 1000)}"
        f" -c client_connection_check_interval={int(STILL_THERE_EVERY.total_seconds() * 1000)}"
        # Queries of a millisecond gain nothing from being compiled.
        " -c timezone=UTC -c jit=off",
    }
    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError as fault:
        raise ConfigError(
            ["LUCYD_DATABASE_URL is not a Postgres address (postgresql://user@host:port/name)"]
        ) from fault
    return make_conninfo(url, **{key: value for key, value in bounds.items() if key not in given})


@contextlib.asynccontextmanager
async def open_database(url: str, *, application: str, connections: int = 8) -> AsyncIterator[Database]:
    """Open a pool; it connects in the background, so Postgres may come later."""
    pool = _HotPool(
        conninfo(url, application=application),
        connection_class=Line,
        kwargs={"autocommit": True},
        min_size=1,
        max_size=connections,
        open=False,
        reconnect_timeout=5,
        max_idle=60,
        num_workers=2,
    )
    await pool.open(wait=False)
    try:
        yield Database(pool)
    finally:
        await pool.close(timeout=2)
