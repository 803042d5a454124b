"""The launcher as a person meets it: one command, six services (small ones here), Ctrl-C."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from deploy.local import leftovers
from deploy.local.child import Child
from deploy.local.keeper import REFUSES_CONFIGURATION, Keeper, Program, stop_together
from deploy.local.log_file import open_log
from deploy.local.restart_request import ask_restart
from deploy.local.state import is_claimed
from shared.errors import ConfigError

PROJECT = Path(__file__).resolve().parents[2]
PATIENCE = timedelta(seconds=20)

LAUNCHER = """
import os, sys
from deploy.local.launch import Options, launch
from shared.errors import ConfigError

GATEWAY = '''
import http.server, os, redis, signal, socket, sys, threading
client = redis.Redis.from_url(os.environ["LUCYD_REDIS_URL"])
client.hset("lucyd:monitor:worker:1", "state", "ready")
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path in ("/readyz", "/pid") else 404)
        self.end_headers()
        self.wfile.write(str(os.getpid()).encode() if self.path == "/pid" else b"")
    def log_message(self, *_): pass
    def log_error(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Answer, bind_and_activate=False)
server.socket.close()
server.socket = socket.socket(fileno=int(os.environ["LUCYD_HTTP_FD"]))
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
if os.path.exists(os.environ["LUCYD_DATA_DIR"] + "/broken"):
    sys.exit("gateway: agent.name is missing")
client.hset(f"lucyd:monitor:service:gateway:{os.getpid()}", mapping={"state": "ready", "parent": os.getppid()})
server.serve_forever(0.02)
'''
# Stops in order only while Postgres can still be written to.
OTHER = '''
import os, signal, sys, psycopg, threading
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
while not stop.wait(0.05):
    pass
with psycopg.connect(os.environ["LUCYD_DATABASE_URL"]) as connection:
    connection.execute("select 1")
with open(os.environ["LUCYD_DATA_DIR"] + "/drained", "a") as file:
    file.write(sys.argv[1] + "\\\\n")
'''

def command_of(name):
    if name == "gateway":
        return (sys.executable, "-c", GATEWAY)
    return (sys.executable, "-c", sys.argv[1] if len(sys.argv) > 1 else OTHER, name)

try:
    launch(Options(workers=2), os.environ, command_of)
except ConfigError as fault:
    print(fault)
    sys.exit(1)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment_for(data: Path, port: int | str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LUCYD_", "PG"))}
    return kept | {"LUCYD_DATA_DIR": str(data), "LUCYD_HTTP_PORT": str(port), "PYTHONPATH": str(PROJECT)}


@contextmanager
def launched(
    data: Path, port: int, *arguments: str, start_new_session: bool = False
) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, *arguments],
        env=environment_for(data, port),
        cwd=data.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=start_new_session,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """Return what the launcher said up to the line with these words; fails when it ends before."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if words in line:
            return said
    raise AssertionError(f"it ended without {words!r}:\n{said}")


@pytest.fixture
def port() -> int:
    return free_port()


def test_one_command_starts_everything_and_ctrl_c_ends_it_in_order(tmp_path: Path, port: int) -> None:
    """The whole promise of `make run`: address, token, data; and nothing is left running or half written."""
    data = tmp_path / "data é"
    with launched(data, port) as process:
        said = read_until(process, "Ctrl-C")
        assert f"http://127.0.0.1:{port}" in said
        assert "no model is configured" in said
        token = (data / "http_token").read_text().strip()
        assert token not in said
        assert (data / "http_token").stat().st_mode & 0o777 == 0o600
        known = json.loads((data / "launcher.json").read_text())
        assert (known["pid"], known["http"]) == (process.pid, f"http://127.0.0.1:{port}")
        assert (data / "launcher.json").stat().st_mode & 0o777 == 0o600
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            assert answer.status == 200
        with psycopg.connect(known["database_url"]) as connection:
            assert connection.execute("select count(*) from migrations").fetchone() != (0,)
        assert (data / "workspace").is_dir()

        second = subprocess.run(
            [sys.executable, "-m", "deploy.local"], env=environment_for(data, port), cwd=tmp_path,
            capture_output=True, text=True, timeout=20, check=False,
        )  # fmt: skip
        assert second.returncode == 1
        assert "already running" in second.stderr
        assert len(second.stderr.splitlines()) == 1

        server = leftovers.first_number(data / "postgres" / "postmaster.pid")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE.total_seconds()) == 0
    drained = (data / "drained").read_text().split()
    names = ["agent_worker", "agent_worker", "consolidator", "indexer", "scheduler", "telegram_bridge"]
    assert sorted(drained) == names
    assert not leftovers.is_alive(server)
    assert not (data / "launcher.json").exists()


def test_a_killed_postgres_and_a_killed_launcher_are_both_survived(tmp_path: Path, port: int) -> None:
    """Postgres comes back at the same address; after kill -9 of the launcher the next start works at once."""
    data = tmp_path / "data"
    with launched(data, port) as process:
        read_until(process, "Ctrl-C")
        url = json.loads((data / "launcher.json").read_text())["database_url"]
        os.kill(leftovers.first_number(data / "postgres" / "postmaster.pid"), signal.SIGKILL)
        read_until(process, "postgres was killed by signal 9; it starts again")
        until = time.monotonic() + PATIENCE.total_seconds()
        while True:
            try:
                psycopg.connect(url).close()
                break
            except psycopg.OperationalError:
                assert time.monotonic() < until
                time.sleep(0.05)
        process.kill()
    with launched(data, port) as process:
        read_until(process, "Ctrl-C")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE.total_seconds()) == 0


def test_a_service_that_refuses_its_configuration_ends_everything_with_its_words(tmp_path: Path, port: int) -> None:
    """Starting it again would not help, and the person needs the sentence, once."""
    refuse = f"import sys; print('telegram.token is missing', flush=True); sys.exit({REFUSES_CONFIGURATION})"
    with launched(tmp_path / "data", port, refuse) as process:
        said, _ = process.communicate(timeout=PATIENCE.total_seconds())
        assert process.returncode == 1
    assert said.count("telegram.token is missing") == 1
    assert not (tmp_path / "data" / "postgres" / "postmaster.pid").exists()


def test_what_can_not_work_is_said_before_anything_starts(tmp_path: Path) -> None:
    """One sentence for each fault, exit code 1, and no folder, server or process to clean up."""
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as busy:
        for port, word in ((busy.getsockname()[1], "LUCYD_HTTP_PORT"), ("nonsense", "LUCYD_HTTP_PORT")):
            ran = subprocess.run(
                [sys.executable, "-m", "deploy.local"], env=environment_for(data, port), cwd=tmp_path,
                capture_output=True, text=True, timeout=20, check=False,
            )  # fmt: skip
            assert ran.returncode == 1
            assert word in ran.stderr
            assert len(ran.stderr.splitlines()) == 1
    assert not (data / "postgres").exists()


def test_a_gateway_is_followed_by_the_next_without_a_refused_connection(tmp_path: Path, port: int) -> None:
    """Its socket is the launcher's. A new one that can't run changes nothing, and whoever asked is told why."""
    data = tmp_path / "data"

    def serving_pid() -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/pid", timeout=5) as answer:
            return int(answer.read())

    with launched(data, port) as process:
        read_until(process, "Ctrl-C")
        asked: list[int] = []
        over = threading.Event()

        def keep_asking() -> None:
            while not over.is_set():
                asked.append(serving_pid())

        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(keep_asking)
            try:
                first, shown = serving_pid(), list[str]()
                ask_restart(data, ["gateway"], show=shown.append)
                second = serving_pid()
                (data / "broken").touch()
                with pytest.raises(ConfigError, match=r"agent\.name is missing") as refused:
                    ask_restart(data, ["gateway"])
                with pytest.raises(ConfigError, match="there is no service post"):
                    ask_restart(data, ["post"])
                third = serving_pid()
            finally:
                over.set()
            asking.result()
        assert shown[0].startswith("gateway restarted in ")
        assert "goes on" in str(refused.value)
        assert first != second == third
        assert set(asked) == {first, second}
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE.total_seconds()) == 0
    with pytest.raises(ConfigError, match="runs with the data folder"):
        ask_restart(data)


def test_a_restart_never_signals_the_number_of_a_launcher_that_was_killed(tmp_path: Path, port: int) -> None:
    """It may be anybody's by now, and the signal would end them; the next launcher takes seconds to start."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    told = {"launcher": os.getpid(), "begun": 0, "ended": 0, "lines": [], "errors": []}
    (data / "restart.json").write_text(json.dumps(told))
    with pytest.raises(ConfigError, match="no `lucyd up`"):
        ask_restart(data)
    with launched(data, port) as process:
        while not is_claimed(data):
            time.sleep(0.001)
        while not (data / "children.lock").exists():
            time.sleep(0.001)
        time.sleep(0.05)
        assert json.loads((data / "restart.json").read_text())["launcher"] == process.pid
        ask_restart(data, ["gateway"])  # asked during the start, done after it
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def test_two_who_ask_for_a_restart_at_once_both_get_theirs(tmp_path: Path, port: int) -> None:
    """Neither hears of the end of the other's, and nothing else is restarted."""
    data = tmp_path / "data"
    with launched(data, port) as process:
        read_until(process, "Ctrl-C")
        lines: dict[str, list[str]] = {"one": [], "other": [], "third": []}
        with ThreadPoolExecutor(3) as pool:
            for each in [pool.submit(ask_restart, data, ["gateway"], show=said.append) for said in lines.values()]:
                each.result(timeout=60)
        assert [[line.split()[0] for line in said] for said in lines.values()] == [["gateway"]] * 3
        assert json.loads((data / "restart.json").read_text())["begun"] == 3
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def test_a_hang_up_restarts_what_has_no_terminal(tmp_path: Path, port: int) -> None:
    """As other servers do it. Where a terminal was closed, the launcher ends with it."""
    data = tmp_path / "data"
    with launched(data, port, start_new_session=True) as process:
        read_until(process, "Ctrl-C")
        (data / "broken").touch()
        process.send_signal(signal.SIGHUP)
        read_until(process, "restart: the gateway that ran before goes on")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE.total_seconds()) == 0


def program(folder: Path, name: str, code: str, patience: timedelta = PATIENCE) -> Program:
    log = folder / f"{name}.log"

    def start() -> Child:
        with open_log(log) as out:
            return Child([sys.executable, "-c", code], log=out, patience=patience)

    return Program(name, log, start)


def watch_until(keeper: Keeper, shown: list[str], count: int) -> None:
    until = time.monotonic() + PATIENCE.total_seconds()
    while len(shown) < count:
        keeper.watch()
        assert time.monotonic() < until, shown
        time.sleep(0.01)


def test_a_dead_service_is_started_again_and_the_person_is_told(tmp_path: Path) -> None:
    """Its warnings are shown as well, its chatter is not."""
    shown: list[str] = []
    code = (
        'print(\'{"level": "info", "event": "started"}\\n{"level": "error", "event": "no_luck"}\', flush=True)\n'
        "raise SystemExit(3)"
    )
    keeper = Keeper(program(tmp_path, "worker", code), shown.append)
    begin = time.monotonic()
    keeper.start()
    watch_until(keeper, shown, 6)
    keeper.stop()
    assert [line for line in shown if "|" in line] == ["worker | error no_luck"] * 3
    pauses = [line.split("again in ")[1].split(" s")[0] for line in shown if "again in" in line]
    assert pauses == ["0.2", "0.4", "0.8"]
    assert time.monotonic() - begin > 0.6


def test_services_that_will_not_stop_are_ended_together_after_their_patience(tmp_path: Path) -> None:
    """One deaf service must not make the person wait for each of the others in turn."""
    deaf = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('{"level": "warning", "event": "deaf"}', flush=True)
time.sleep(60)
"""
    shown: list[str] = []
    keepers = [Keeper(program(tmp_path, f"deaf-{n}", deaf, timedelta(seconds=1)), shown.append) for n in range(6)]
    for keeper in keepers:
        keeper.start()
    for number, keeper in enumerate(keepers, start=1):
        watch_until(keeper, shown, number)
    begin = time.monotonic()
    stop_together(keepers)
    assert 0.9 < time.monotonic() - begin < 5


def test_an_error_of_the_configuration_is_told_from_a_crash_and_from_an_outage(tmp_path: Path) -> None:
    """Services leave with 1 and sentences for a bad configuration; Python leaves with 1 and a traceback for a bug."""
    keeper = Keeper(program(tmp_path, "a", "import sys; sys.exit('agent.name is missing')"), print)
    keeper.start()
    with pytest.raises(ConfigError, match=r"agent\.name is missing"):
        watch_until(keeper, [], 1)
    shown: list[str] = []
    keeper = Keeper(program(tmp_path, "b", "raise RuntimeError('bug')"), shown.append)
    keeper.start()
    watch_until(keeper, shown, 2)
    keeper.stop()
    assert any("bug" in line for line in shown)
