"""Looks at a Postgres server and changes nothing."""

import psycopg
from psycopg import sql

from cli.rules.diagnosis import PostgresState
from cli.rules.failure import Failure

_CHECKED = ("fsync", "synchronous_commit")


def look_at_postgres(conninfo: str) -> PostgresState:
    """What the server is and which migrations it has; raises ``Failure`` with libpq's words when it can't be asked."""
    try:
        with psycopg.connect(conninfo, autocommit=True) as connection:
            info = connection.info
            off = [name for name in _CHECKED if _value(connection, "select current_setting(%s)", name) == "off"]
            vector = _value(connection, "select 1 from pg_available_extensions where name = %s", "vector")
            known = _value(connection, "select to_regclass(%s)::text", "migrations") is not None
            applied = connection.execute(sql.SQL("select name from migrations")).fetchall() if known else []
            server = f"{info.host or 'this machine'}:{info.port}/{info.dbname}"
            names = frozenset(str(row[0]) for row in applied)
            return PostgresState(server, info.server_version, off, vector is not None, names)
    except psycopg.Error as fault:
        raise Failure(str(fault)) from fault


def _value(connection: psycopg.Connection, query: str, parameter: str) -> object:
    row = connection.execute(query.encode(), (parameter,)).fetchone()
    return row[0] if row else None
