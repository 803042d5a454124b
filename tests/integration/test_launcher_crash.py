"""A launcher that is killed leaves nothing behind, and the next one takes over whatever it could not."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from deploy.local import as_root, leftovers, state
from deploy.local.child import Child
from deploy.local.embedded_postgres import find_binaries
from deploy.local.servers import open_servers

PROJECT = Path(__file__).resolve().parents[2]
PROMISED = timedelta(seconds=10)

HOLD = """
import subprocess, sys, time
from pathlib import Path
from deploy.local.child import Child
from deploy.local.servers import open_servers
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
with open_servers(Path(sys.argv[1])):
    service = Child([sys.executable, "-c", DEAF], log=subprocess.PIPE)
    print(service.output.readline().decode().strip(), flush=True)
    time.sleep(60)
"""


def descendants(pid: int) -> dict[int, int]:
    """Return the processes below ``pid`` with their parents."""
    shown = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=True, timeout=10)
    parents = {int(child): int(parent) for child, parent in (line.split() for line in shown.stdout.splitlines())}
    found: dict[int, int] = {}
    fresh = {pid}
    while fresh:
        fresh = {child for child, parent in parents.items() if parent in fresh}
        found |= {child: parents[child] for child in fresh}
    return found


def survivors(pids: set[int], patience: timedelta) -> set[int]:
    until = time.monotonic() + patience.total_seconds()
    while (left := {pid for pid in pids if leftovers.is_alive(pid)}) and time.monotonic() < until:
        time.sleep(0.05)
    return left


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all: what a crash left in it is what the next test starts with."""
    return tmp_path_factory.mktemp("crash") / "some é data"


@pytest.fixture
def launcher(data: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds both servers and a service that hangs and hears no signal, as those do that would stay."""
    words = [sys.executable, "-c", HOLD, str(data)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "deaf\n"
        yield process
        process.kill()


def test_a_killed_launcher_leaves_nothing_and_the_next_start_has_the_data(
    launcher: subprocess.Popen[str], data: Path
) -> None:
    """Nobody should have to look for processes after their terminal crashed."""
    family = set(descendants(launcher.pid))
    assert len(family) > 5  # three tethers, the service, valkey, postgres and its workers
    launcher.kill()
    launcher.wait()
    # At once, while the old servers are still on their way out.
    with open_servers(data) as servers, psycopg.connect(servers.database_url) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
    assert survivors(family, PROMISED) == set()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a child of its parent's death")
def test_not_even_killed_tethers_leave_anything(launcher: subprocess.Popen[str]) -> None:
    """Whoever kills by name, or the kernel short of memory, may well take the tethers too."""
    family = descendants(launcher.pid)
    tethers = {pid for pid, parent in family.items() if parent == launcher.pid}
    os.kill(launcher.pid, signal.SIGSTOP)  # so that it can't act in between
    for pid in tethers:
        os.kill(pid, signal.SIGKILL)
    launcher.kill()
    launcher.wait()
    assert survivors(set(family), PROMISED) == set()


def test_a_server_that_outlived_everything_is_found_and_replaced(data: Path) -> None:
    """Where nothing tells it of its parent's death it waits for the next start, which must not stumble over it."""
    with open_servers(data) as servers, psycopg.connect(servers.database_url) as connection:
        connection.execute("create table kept ()")
    port = state.read_ports(data)["postgres"]
    standing = as_root.stand(find_binaries(), data.resolve())
    script = '"$0" -D "$1" -p "$2" -c listen_addresses=127.0.0.1 -c unix_socket_directories= & sleep 1'
    command: list[str | Path] = ["/bin/sh", "-c", script, standing.binaries / "postgres", standing.cluster, str(port)]
    starter = Child(command, log=subprocess.DEVNULL, identity=standing.identity, folder=Path("/"))
    assert starter.wait(timedelta(seconds=20)) == 0
    starter.stop()
    orphan = leftovers.first_number(standing.cluster / "postmaster.pid")
    assert leftovers.is_alive(orphan)
    with open_servers(data) as servers, psycopg.connect(servers.database_url) as connection:
        assert not leftovers.is_alive(orphan)
        assert connection.execute("select count(*) from kept").fetchone() == (0,)
    assert state.read_ports(data)["postgres"] == port


@pytest.mark.skipif(sys.platform != "linux", reason="others do not know it")
def test_what_is_started_lets_others_finish() -> None:
    """On a full machine each server and service does more in a turn, and interrupts nobody for it."""
    code = "import os; print(os.sched_getscheduler(0) == os.SCHED_BATCH)"
    child = Child([sys.executable, "-c", code], log=subprocess.PIPE)
    assert child.wait(timedelta(seconds=20)) == 0
    assert child.output is not None
    with child.output as output:
        assert output.read() == b"True\n"
    child.stop()
