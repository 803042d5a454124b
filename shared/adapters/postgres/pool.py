"""Connections to Postgres, and the one way every query goes: bounded, and tried again when a connection breaks.

Every query here is a single statement that may safely be sent twice (reads, and functions that look for their own id
first), so a broken connection, also one broken in COMMIT, is answered by asking again on a new one.
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

from shared.errors import ConfigError, TryLater

set_json_loads(orjson.loads)

STATEMENT_TIMEOUT = timedelta(seconds=30)
LOCK_TIMEOUT = timedelta(seconds=10)
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0

Row = tuple[Any, ...]


class Database:
    """A pool that forgets broken connections. ``patience`` is how long a query may be tried before ``TryLater``."""

    def __init__(self, pool: psycopg_pool.AsyncConnectionPool[psycopg.AsyncConnection[Row]]) -> None:
        self._pool = pool

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
                async with self._pool.connection(timeout=max(0.05, give_up_at - time.monotonic())) as connection:
                    cursor = await connection.execute(query, parameters)
                    return await cursor.fetchall() if cursor.description else []
            except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable) as fault:
                raise TryLater("Postgres took too long to answer", after=1.0) from fault
            except (psycopg.OperationalError, psycopg_pool.PoolTimeout) as fault:
                if time.monotonic() + pause >= give_up_at:
                    raise TryLater("Postgres can't be reached", after=1.0) from fault
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

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
        f" -c lock_timeout={int(LOCK_TIMEOUT.total_seconds() * 1000)} -c timezone=UTC",
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
    pool: psycopg_pool.AsyncConnectionPool[psycopg.AsyncConnection[Row]] = psycopg_pool.AsyncConnectionPool(
        conninfo(url, application=application),
        kwargs={"autocommit": True, "prepare_threshold": 2},
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
