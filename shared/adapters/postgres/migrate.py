"""Brings the tables up to date: forward only, plain SQL files, each in one transaction, all under one lock."""

from hashlib import sha256
from importlib.resources import files

import psycopg

from shared.adapters.postgres.pool import conninfo
from shared.adapters.postgres.unreachable import address_of, reason_of
from shared.errors import ConfigError

LOCK = 0x6C756379  # one migration at a time, whoever starts it
OLDEST = 160_000

LEDGER = """
create table if not exists migrations (
  name text primary key, digest text not null, applied_at timestamptz not null default now()
)
"""


def migrate(database_url: str) -> list[str]:
    """Apply what is missing and name it.

    Raises ``ConfigError`` when the server can't be reached, is too old, lacks pgvector, would forget commits, or holds
    a migration that this version does not know or knows otherwise.
    """
    try:
        with psycopg.connect(conninfo(database_url, application="lucyd migrate"), autocommit=True) as connection:
            _check(connection)
            connection.execute("set lock_timeout = 0")
            connection.execute("set statement_timeout = 0")
            connection.execute("select pg_advisory_lock(%s)", (LOCK,))
            _extend(connection)
            return _apply(connection)
    except psycopg.OperationalError as fault:
        raise ConfigError([f"Postgres at {address_of(database_url)} can't be reached: {reason_of(fault)}"]) from fault


def _check(connection: psycopg.Connection) -> None:
    errors = []
    if connection.info.server_version < OLDEST:
        errors.append(f"Postgres {connection.info.server_version // 10000} is too old: Lucyd needs 16 or newer.")
    for setting in ("fsync", "synchronous_commit"):
        row = connection.execute("select current_setting(%s)", (setting,)).fetchone()
        if row is not None and row[0] == "off":
            errors.append(f"Postgres runs with {setting} = off and could lose accepted messages; turn it on.")
    available = connection.execute("select 1 from pg_available_extensions where name = 'vector'").fetchone()
    if available is None:
        errors.append("Postgres has no pgvector extension.")
    if errors:
        raise ConfigError(errors)


def _extend(connection: psycopg.Connection) -> None:
    """Under the lock: two at once would get in each other's way, ``if not exists`` or not."""
    try:
        connection.execute("create extension if not exists vector")
    except psycopg.Error as fault:
        raise ConfigError([f"The pgvector extension can't be created: {fault.diag.message_primary}"]) from fault


def _apply(connection: psycopg.Connection) -> list[str]:
    connection.execute(LEDGER)
    ours = _ours()
    theirs: dict[str, str] = dict(connection.execute("select name, digest from migrations").fetchall())
    if unknown := sorted(theirs.keys() - ours.keys()):
        raise ConfigError([f"The database is newer than this Lucyd: it has {', '.join(unknown)}."])
    if changed := [name for name, digest in theirs.items() if digest != _digest(ours[name])]:
        raise ConfigError([f"The database was made by another build of Lucyd: {', '.join(sorted(changed))} differ."])
    applied = []
    for name, text in ours.items():
        if name in theirs:
            continue
        with connection.transaction():
            connection.execute(text.encode())
            connection.execute("insert into migrations (name, digest) values (%s, %s)", (name, _digest(text)))
        applied.append(name)
    return applied


def _ours() -> dict[str, str]:
    folder = files("shared.adapters.postgres").joinpath("migrations")
    found = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    return {file.name: file.read_text("utf-8") for file in sorted(found, key=lambda file: file.name)}


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def newest() -> str:
    """The name of the last migration this version needs."""
    return sorted(_ours())[-1]
