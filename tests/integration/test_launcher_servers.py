"""The embedded servers, for real: they start from any folder, keep their data, and trust no stale file."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psycopg
import pytest
import redis

from deploy.local import as_root, state, tether
from deploy.local.embedded_postgres import run_postgres
from deploy.local.servers import open_servers
from shared.errors import ConfigError

ROOT = os.geteuid() == 0
PROJECT = Path(__file__).resolve().parents[2]


def ask(url: str, query: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder, in a place with a space and an accent, that was used and stopped in order."""
    folder = tmp_path_factory.mktemp("made") / "an é and ü"
    with open_servers(folder) as servers:
        ask(servers.database_url, "create table kept (word text)")
        ask(servers.database_url, "insert into kept values ('kept')")
    return folder


@pytest.fixture
def doomed(made: Path, tmp_path: Path) -> Path:
    """A copy of that folder, to be broken."""
    folder = tmp_path / "an é and ü"
    shutil.copytree(made, folder)
    return folder


def test_a_folder_with_a_space_and_an_accent_works_and_keeps_its_data(tmp_path: Path) -> None:
    """People are called Zoë and keep things in 'My Documents'."""
    data = tmp_path / "Zoë's data"
    with open_servers(data) as first:
        assert ask(first.database_url, "select upper('é')") == "É"
        assert ask(first.database_url, "select current_database()") == "lucyd"
        assert (
            ask(first.database_url, "select current_setting('fsync') || current_setting('synchronous_commit')")
            == "onon"
        )
        ask(first.database_url, "create extension vector")
        ask(first.database_url, "create table a (b vector(3))")
        with redis.Redis.from_url(first.redis_url) as valkey:
            assert valkey.ping()
            valkey.set("a", "b")
            assert valkey.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    with open_servers(data) as second:
        assert second == first
        assert ask(second.database_url, "select count(*) from a") == 0
        with redis.Redis.from_url(second.redis_url) as valkey:
            assert valkey.get("a") is None
    kept = {file.name: file.stat().st_mode & 0o777 for file in data.iterdir() if file.is_file()}
    assert kept["postgres_password"] == kept["valkey_password"] == kept["local.json"] == 0o600
    assert list((data / "valkey").glob("*.rdb")) == []


def test_the_servers_ask_for_a_password(made: Path) -> None:
    """Any other user of the machine can reach 127.0.0.1."""
    with open_servers(made) as servers:
        port = state.read_ports(made)["postgres"]
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgresql://postgres:wrong@127.0.0.1:{port}/lucyd")
        with socket.create_connection(("127.0.0.1", state.read_ports(made)["valkey"]), timeout=5) as valkey:
            valkey.sendall(b"PING\r\n")
            assert valkey.recv(64).startswith(b"-NOAUTH")
        assert "@" not in repr(servers)


def test_a_stale_pid_file_whose_number_another_process_has_is_seen_through(made: Path) -> None:
    """After a power cut the number may belong to anybody; Postgres would refuse, and killing it would be worse."""
    innocent = subprocess.Popen(["/bin/sleep", "60"])
    try:
        with open_servers(made):
            lines = (made / "postgres" / "postmaster.pid").read_text().splitlines(keepends=True)
        (made / "postgres" / "postmaster.pid").write_text("".join([f"{innocent.pid}\n", *lines[1:]]))
        (made / "valkey" / "valkey.pid").write_text(f"{innocent.pid}\n")
        if ROOT:
            os.chown(made / "postgres" / "postmaster.pid", 0, 0)
        with open_servers(made) as servers:
            assert ask(servers.database_url, "select word from kept") == "kept"
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


def test_a_second_launcher_of_a_folder_is_refused(made: Path) -> None:
    """Its sentence says what to do; the first goes on undisturbed."""
    with open_servers(made) as servers:
        with pytest.raises(ConfigError, match="already running"), open_servers(made):
            pass
        assert ask(servers.database_url, "select word from kept") == "kept"


def test_a_port_that_somebody_took_is_replaced(made: Path) -> None:
    """A remembered number is a preference, not a reason not to start."""
    known = state.read_ports(made)
    with socket.create_server(("127.0.0.1", known["postgres"])), open_servers(made) as servers:
        assert ask(servers.database_url, "select word from kept") == "kept"
    assert state.read_ports(made)["postgres"] != known["postgres"]
    assert state.read_ports(made)["valkey"] == known["valkey"]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda folder: (folder / "PG_VERSION").write_text("16\n"), "made by Postgres 16"),
        (lambda folder: (folder / "PG_VERSION").unlink(), "no Postgres cluster"),
        (lambda folder: (folder / "global" / "pg_control").unlink(), "can't start with the folder"),
        (lambda folder: (folder.parent / "postgres_password").unlink(), "password"),
    ],
    ids=["another major", "no cluster", "broken", "no password"],
)
def test_a_broken_cluster_is_named_and_nothing_stays_behind(doomed: Path, damage: object, sentence: str) -> None:
    """One sentence with the folder, and Valkey, which could start, is not left running."""
    assert callable(damage)
    damage(doomed / "postgres")
    with pytest.raises(ConfigError, match=sentence) as caught, open_servers(doomed):
        pass
    assert str(doomed / "postgres") in str(caught.value)
    assert len(caught.value.errors) == 1
    with state.claim(doomed):
        assert not (doomed / "valkey" / "valkey.pid").exists()


def test_an_interrupted_first_start_is_begun_again(tmp_path: Path) -> None:
    """Half a cluster must not be taken for one."""
    data = state.open_folder(tmp_path / "data")
    (data / "postgres.new").mkdir()
    (data / "postgres.new" / "PG_VERSION").write_text("18\n")
    with open_servers(data) as servers:
        assert ask(servers.database_url, "select 1") == 1
    assert not (data / "postgres.new").exists()


AS_A_USER = """
import os, sys
from pathlib import Path
import psycopg
from deploy.local.servers import open_servers
assert os.geteuid() != 0
with open_servers(Path(sys.argv[1])) as servers, psycopg.connect(servers.database_url) as connection:
    print(connection.execute("select 'up'").fetchone()[0])
"""


def test_an_ordinary_user_needs_nothing_special(tmp_path: Path) -> None:
    """This is how nearly everybody starts it. Root's tests become somebody else for it in a user namespace."""
    identity = "namespace:65534:65534" if ROOT else "self"
    words = [str(15), "30", identity, "-1", "-1", "--", sys.executable, "-c", AS_A_USER, str(tmp_path / "data")]
    ran = subprocess.Popen(
        [sys.executable, "-I", "-S", tether.__file__, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=PROJECT,
    )
    with ran:
        assert ran.stdout is not None
        said = ran.stdout.read()
    if "unshare was refused" in said:
        pytest.skip("user namespaces are refused here")
    assert said.splitlines()[-1:] == ["up"]


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A folder that every user may enter, which pytest's own is not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.mark.skipif(not ROOT, reason="only root has to become somebody else")
@pytest.mark.parametrize("home", ["private", "open"])
def test_root_without_namespaces_runs_postgres_as_nobody(home: str, tmp_path: Path, open_place: Path) -> None:
    """Docker refuses namespaces, and root's home is closed to others there: the cluster stands elsewhere then."""
    data = state.open_folder((tmp_path if home == "private" else open_place) / "data")
    if home == "private":
        tmp_path.chmod(0o700)
    stand = partial(as_root.stand, namespaces=False, shared_place=open_place / "shared")
    for _ in range(2):
        with ExitStack() as stack:
            claim = stack.enter_context(state.claim(data))
            server = stack.enter_context(run_postgres(claim, None, stand=stand))
            assert ask(server.url, "select count(*) from pg_tables where tablename = 'never'") == 0
            assert (data / "postgres").resolve().stat().st_uid == 65534
    assert (data / "postgres").is_symlink() == (home == "private")
    assert (data / "postgres_password").stat().st_uid == 0


@pytest.mark.skipif(not ROOT, reason="only root can hand files over")
def test_a_cluster_of_nobody_is_taken_back_where_namespaces_work(open_place: Path) -> None:
    """The same volume may be used in Docker today and on the host tomorrow."""
    data = state.open_folder(open_place / "data")
    stand = partial(as_root.stand, namespaces=False, shared_place=open_place / "shared")
    with state.claim(data) as claim, run_postgres(claim, None, stand=stand) as server:
        ask(server.url, "create table kept ()")
    with open_servers(data) as servers:
        assert ask(servers.database_url, "select count(*) from kept") == 0
