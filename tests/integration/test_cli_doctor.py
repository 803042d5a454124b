"""`lucyd doctor` and `lucyd migrate`: with nothing running, with everything, and with faults."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.command_line import environment_of, lucyd
from tests.fake_gateway import TOKEN, FakeGateway

SECRET = "sk-ant-very-secret"


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with FakeGateway().in_thread() as serving:
        yield serving


@pytest.fixture
def empty_database(database_url: str) -> str:
    """A database without tables."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("drop schema public cascade")
        connection.execute("create schema public")
    return database_url


def doctor(home: Path, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    done = lucyd(home, "doctor", *words, **changes)
    assert done.stderr == ""
    return done


def test_a_fresh_machine_is_well(tmp_path: Path) -> None:
    """Nothing runs and nothing was made; doctor makes nothing either."""
    done = doctor(tmp_path, LUCYD_HTTP_PORT="18973")
    assert done.returncode == 0
    assert "warn  model" in done.stdout
    assert "warn  gateway" in done.stdout
    assert "make run" in done.stdout
    assert "fail" not in done.stdout.splitlines()[0]
    assert list(tmp_path.iterdir()) == []


def test_everything_in_order(tmp_path: Path, gateway: FakeGateway, database_url: str, redis_url: str) -> None:
    """Real servers, a ready gateway, a key that is never shown."""
    done = doctor(
        tmp_path, LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN=TOKEN, LUCYD_DATABASE_URL=database_url,
        LUCYD_REDIS_URL=redis_url, ANTHROPIC_API_KEY=SECRET,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "its key is set" in done.stdout
    assert "noeviction" in done.stdout
    assert "all 2 migrations" in done.stdout or "migrations" in done.stdout
    assert f"ready at {gateway.url}" in done.stdout
    assert SECRET not in done.stdout
    assert TOKEN not in done.stdout


def test_tools_that_nobody_knows_are_warned_about(tmp_path: Path) -> None:
    """A misspelt name means a tool less; those of other versions are no mistake."""
    (tmp_path / "lucyd.toml").write_text('[tools]\nenabled = ["read", "exce", "pdf_read"]\n')
    done = doctor(tmp_path, LUCYD_HTTP_PORT="18973")
    assert done.returncode == 0
    assert "there is no tool exce" in done.stdout
    assert "pdf_read" not in done.stdout


def test_a_data_folder_that_is_a_file_is_called_one(tmp_path: Path) -> None:
    """By every command, in one sentence."""
    data = tmp_path / "data"
    data.write_text("")
    done = doctor(tmp_path, LUCYD_DATA_DIR=str(data), LUCYD_HTTP_PORT="18973")
    assert done.returncode == 1
    assert f"{data} is a file, not a folder" in done.stdout
    for words in (["up"], ["send", "hi"], ["sessions"]):
        ran = lucyd(tmp_path, *words, LUCYD_DATA_DIR=str(data), LUCYD_HTTP_PORT="18973")
        assert ran.returncode == 1
        assert "is a file, not a folder" in ran.stderr
        assert len(ran.stderr.splitlines()) == 1, ran.stderr


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="takes root's rights away from root")
@pytest.mark.parametrize("words", [["up"], ["send", "hi"], ["chat"], ["doctor"]])
def test_a_home_that_can_not_be_read_is_one_sentence(tmp_path: Path, words: list[str]) -> None:
    """A service unit with the wrong user, a home of somebody else."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    os.chown(home, 65534, 65534)
    done = subprocess.run(
        ["setpriv", "--bounding-set=-dac_override,-dac_read_search", sys.executable, "-m", "cli", *words],
        env=environment_of(home), cwd="/", capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "Traceback" not in said
    assert str(home) in said
    if words != ["doctor"]:
        assert len(done.stderr.splitlines()) == 1, said


def test_every_mistake_of_the_configuration_is_listed(tmp_path: Path) -> None:
    """One run, all mistakes, and the rest is looked at all the same."""
    (tmp_path / "lucyd.toml").write_text("[http]\nport = 'x'\n[agent]\nname = 7\n")
    done = doctor(tmp_path, LUCYD_HTTP_PORT="18973")
    assert done.returncode == 1
    fails = [line for line in done.stdout.splitlines() if line.startswith("fail")]
    assert len(fails) == 2
    assert "http.port" in done.stdout
    assert "agent.name" in done.stdout
    assert "data directory" in done.stdout


def test_unknown_keys_are_warned_about(tmp_path: Path) -> None:
    """A misspelt key does nothing, and nothing else would ever say so."""
    (tmp_path / "lucyd.toml").write_text("[agent]\nnmae = 'x'\n")
    done = doctor(tmp_path, LUCYD_HTTP_PORT="18973")
    assert done.returncode == 0
    assert "unknown key lucyd.toml: agent.nmae" in done.stdout


def test_servers_that_are_named_must_answer(tmp_path: Path) -> None:
    """And no password of an address is repeated."""
    done = doctor(
        tmp_path, LUCYD_HTTP_PORT="18973",
        LUCYD_DATABASE_URL="postgresql://lucyd:hidden@127.0.0.1:9/lucyd", LUCYD_REDIS_URL="redis://:hidden@127.0.0.1:9/0",
    )  # fmt: skip
    assert done.returncode == 1
    assert "fail  Postgres" in done.stdout
    assert "fail  Redis" in done.stdout
    assert "hidden" not in done.stdout


def test_a_running_launchers_servers_are_looked_at(tmp_path: Path, empty_database: str, redis_url: str) -> None:
    """The embedded ones have addresses that nobody types."""
    data = tmp_path / ".lucyd"
    data.mkdir(mode=0o700)
    known = {"http": "http://127.0.0.1:9", "database_url": empty_database, "redis_url": redis_url}
    (data / "launcher.json").write_text(json.dumps(known))
    done = doctor(tmp_path)
    assert done.returncode == 1
    assert "run `lucyd migrate`" in done.stdout
    assert "ok    Redis" in done.stdout
    assert "fail  gateway" in done.stdout


def test_a_gateway_that_is_not_ready_or_refuses_the_token(tmp_path: Path, gateway: FakeGateway) -> None:
    """Both look like "it does not work" from outside."""
    gateway.ready = False
    done = doctor(tmp_path, LUCYD_URL=gateway.url, LUCYD_HTTP_TOKEN="wrong")
    assert done.returncode == 1
    assert "postgres: no answer" in done.stdout
    assert "refuses the token" in done.stdout


def test_migrate_makes_the_tables_once(tmp_path: Path, empty_database: str) -> None:
    """Twice does no harm; who names no database is told how."""
    first = lucyd(tmp_path, "migrate", LUCYD_DATABASE_URL=empty_database)
    assert first.returncode == 0
    assert "applied 0001_tables.sql" in first.stdout
    second = lucyd(tmp_path, "migrate", LUCYD_DATABASE_URL=empty_database)
    assert (second.returncode, second.stdout) == (0, "The tables are up to date.\n")
    unnamed = lucyd(tmp_path, "migrate")
    assert unnamed.returncode == 1
    assert "LUCYD_DATABASE_URL" in unnamed.stderr
    wrong = lucyd(tmp_path, "migrate", "-c", "nowhere.toml")
    assert wrong.returncode == 1
    assert "there is no file" in wrong.stderr


def test_up_refuses_what_the_launcher_refuses(tmp_path: Path) -> None:
    """`lucyd up` is the launcher, with its exit codes and sentences."""
    done = lucyd(tmp_path, "up", "-c", "nowhere.toml")
    assert done.returncode == 1
    assert "there is no file" in done.stderr
    assert lucyd(tmp_path, "up", "--workers", "0").returncode == 2
