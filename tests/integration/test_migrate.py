"""Tables are made once, forward only, and never on a server that forgets."""

from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from urllib.parse import urlsplit

import psycopg
import pytest

from shared.adapters.postgres.migrate import LEDGER, migrate, newest
from shared.errors import ConfigError


@pytest.fixture
def empty_url(database_url: str) -> str:
    """A database without any table."""
    _execute(database_url, "drop schema public cascade")
    _execute(database_url, "create schema public")
    return database_url


def _execute(url: str, query: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(query.encode())


def _tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
    return {row[0] for row in rows}


def test_an_empty_database_gets_everything_and_a_second_time_nothing(empty_url: str) -> None:
    """Every start migrates; only the first one finds work."""
    applied = migrate(empty_url)
    assert applied == sorted(applied)
    assert applied[-1] == newest()
    assert {"runs", "conversations", "messages", "costs", "workers"} <= _tables(empty_url)
    assert migrate(empty_url) == []


def test_what_is_missing_is_added(empty_url: str) -> None:
    """An older database is brought up to date from where it stands."""
    applied = migrate(empty_url)
    first = resources.files("shared.adapters.postgres").joinpath("migrations", applied[0]).read_text("utf-8")
    with psycopg.connect(empty_url, autocommit=True) as connection:
        row = connection.execute("select digest from migrations where name = %s", (applied[0],)).fetchone()
        assert row is not None
    _execute(empty_url, "drop schema public cascade")
    _execute(empty_url, "create schema public")
    _execute(empty_url, LEDGER)
    _execute(empty_url, first)
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("insert into migrations (name, digest) values (%s, %s)", (applied[0], row[0]))

    assert migrate(empty_url) == applied[1:]


def test_a_database_of_a_newer_version_is_left_alone(empty_url: str) -> None:
    """Old code would misread what new code has stored."""
    migrate(empty_url)
    _execute(empty_url, "insert into migrations (name, digest) values ('9999_future.sql', 'x')")
    with pytest.raises(ConfigError, match=r"newer than this Lucyd: it has 9999_future\.sql"):
        migrate(empty_url)


def test_a_database_of_another_build_is_left_alone(empty_url: str) -> None:
    """The same name with another content: nobody can say what is in there."""
    migrate(empty_url)
    _execute(empty_url, "update migrations set digest = 'other' where name like '0001%'")
    with pytest.raises(ConfigError, match=r"another build of Lucyd: 0001_tables\.sql differ"):
        migrate(empty_url)


def test_a_server_that_forgets_commits_is_refused_and_not_touched(empty_url: str) -> None:
    """No promise holds on it, and it would look as if all was well."""
    name = urlsplit(empty_url).path.removeprefix("/")
    _execute(empty_url, f'alter database "{name}" set synchronous_commit = off')
    with pytest.raises(ConfigError, match="synchronous_commit = off"):
        migrate(empty_url)
    assert _tables(empty_url) == set()

    _execute(empty_url, f'alter database "{name}" set synchronous_commit = on')
    assert migrate(empty_url)


def test_a_server_that_is_not_there_is_named_in_one_sentence() -> None:
    """And without the password of its address."""
    with pytest.raises(
        ConfigError, match=r"\APostgres at 127\.0\.0\.1:1 can't be reached: Connection refused\Z"
    ) as told:
        migrate("postgresql://lucyd:secret-word@127.0.0.1:1/lucyd")
    assert "secret-word" not in str(told.value)


@pytest.mark.parametrize("round_", range(3))
def test_many_that_migrate_at_once_make_the_tables_once(empty_url: str, round_: int) -> None:
    """A stack starts all its processes together."""
    with ThreadPoolExecutor(6) as pool:
        applied = list(pool.map(lambda _: migrate(empty_url), range(6)))

    assert sorted(len(names) > 0 for names in applied) == [False] * 5 + [True]
