"""Tables are made once, forward only, and never on a server that forgets."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib import resources
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

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


ROUTES = '{"*": {"model": "m", "worst_case": "1", "currency": "USD"}}'
ACCEPT = (
    "select lucyd_accept_2(%s, 'http:k:s', 'http', 'k', 's', 'message', 'http', 'full', 's',"
    " '{\"text\": \"hello\"}', 'queue', 1, '1 hour', null, null, null, null, 100, null, null, null, null)"
)
CLAIM = "select lucyd_claim_2(%s, 'http:k:s', %s, %s, 2, %s, null, null, null, true, false, '0')"
STORE = "select lucyd_store_2(%s, 'http:k:s', 1, %s)"
WAITING = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


def _migrated_until(url: str, last: str) -> None:
    """As a release of before has left it."""
    folder = resources.files("shared.adapters.postgres").joinpath("migrations")
    _execute(url, "create extension if not exists vector")
    _execute(url, LEDGER)
    for name in sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql") and file.name <= last):
        text = folder.joinpath(name).read_text("utf-8")
        _execute(url, text)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "insert into migrations (name, digest) values (%s, %s)", (name, sha256(text.encode()).hexdigest())
            )


def _until_so_many_wait(url: str, count: int) -> None:
    until = time.monotonic() + 5
    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            row = connection.execute(WAITING).fetchone()
            if row is not None and row[0] >= count:
                return
            assert time.monotonic() < until, f"only {row} wait"
            time.sleep(0.01)


def _asked(url: str, query: str, values: tuple[object, ...]) -> Any:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode(), values).fetchone()
    assert row is not None
    return row[0]


def _running(url: str) -> tuple[UUID, UUID]:
    """A worker and the run it has in hand, in a database of the release before."""
    _migrated_until(url, "0005_webhooks.sql")
    worker, run = uuid4(), uuid4()
    _asked(
        url,
        "insert into workers (id, service, host, boot_id, pid, pid_started, version)"
        " values (%s, 'w', 'h', 'b', 1, '1', '1') returning 1",
        (worker,),
    )
    _asked(url, ACCEPT, (run,))
    _asked(url, CLAIM, (worker, uuid4(), uuid4(), ROUTES))
    return worker, run


def test_the_last_step_of_a_run_that_meets_a_migration_is_stored(empty_url: str) -> None:
    """Old workers are at work while a new release migrates: a function that had begun goes on as it was."""
    worker, run = _running(empty_url)
    outcome = {"state": "done", "run_id": str(run), "reply": "hello"}
    write = {"id": str(uuid4()), "run": str(run), "finish": {"state": "done", "outcome": outcome, "terminal": "1-9"}}

    with ThreadPoolExecutor(2) as pool, psycopg.connect(empty_url) as busy:
        busy.execute("select 1 from runs for no key update")
        migrating = pool.submit(migrate, empty_url)
        _until_so_many_wait(empty_url, 1)
        storing = pool.submit(_asked, empty_url, STORE, (worker, json.dumps(write)))
        _until_so_many_wait(empty_url, 2)
        busy.rollback()
        assert storing.result(10)["status"] == "stored"
        assert migrating.result(10)[0] == "0006_lean_runs.sql"
    told = "select last_write = %s::uuid and state = 'done' from runs where id = %s"
    assert _asked(empty_url, told, (write["id"], run))


BEFORE_PEOPLE = """
insert into conversations (key, channel, principal, contact)
  values ('http:shop:anna', 'http', 'key:shop', 'http-anna'), ('system:sub:1:1:0', 'system', 'key:shop', 'sub-agent');
insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message, deadline_at)
  values ('00000000-0000-0000-0000-000000000001', 'http:shop:anna', 1, 'message', 'waiting', 'http', 'full', 'key:shop',
          'anna', '{}', now()),
         ('00000000-0000-0000-0000-000000000002', 'system:sub:1:1:0', 1, 'message', 'running', 'system', 'minimal',
          'key:shop', 'anna', '{"text": "x", "child": {"depth": 1}}', now());
insert into children (run, parent, root, step, call_index, most_characters)
  values ('00000000-0000-0000-0000-000000000002', '00000000-0000-0000-0000-000000000001',
          '00000000-0000-0000-0000-000000000001', 1, 0, 10);
insert into schedules (conversation, principal, sender, contact, kind, text, due_at, look_at, made_by)
  values ('http:shop:anna', 'key:shop', 'anna', 'http-anna', 'reminder', 'x', now(), now(), 'a'),
         ('cli', 'key:default', 'cli', 'cli', 'reminder', 'y', now(), now(), 'b')
"""


def test_what_was_there_before_it_went_by_person_belongs_to_one(empty_url: str) -> None:
    """Sub-agents at work and timers of the release before are whose they were, and seen by nobody else."""
    _migrated_until(empty_url, "0018_prepared.sql")
    _execute(empty_url, BEFORE_PEOPLE)
    migrate(empty_url)
    child = "select message -> 'child' from runs where message ? 'child'"
    assert _asked(empty_url, child, ()) == {"depth": 1, "works_in": "http:shop:anna"}
    whose = "select array_agg(identity || ' ' || person order by id) from schedules"
    assert _asked(empty_url, whose, ()) == ["http:shop:anna http:shop:anna", "key:default owner"]


def test_a_migration_and_those_who_are_at_work_never_wait_in_a_circle(empty_url: str) -> None:
    """Postgres would end one of them after a second: a client's message, or the migration itself."""
    _running(empty_url)
    later = uuid4()
    with ThreadPoolExecutor(2) as pool, psycopg.connect(empty_url) as busy:
        busy.execute("select 1 from conversations for no key update")
        migrating = pool.submit(migrate, empty_url)
        _until_so_many_wait(empty_url, 1)
        accepting = pool.submit(_asked, empty_url, ACCEPT, (later,))  # it has read runs by then
        _until_so_many_wait(empty_url, 2)
        busy.rollback()
        assert accepting.result(10)["run"] == str(later)
        assert migrating.result(10)[0] == "0006_lean_runs.sql"
