"""Real processes of Lucyd for a test: its own database and Redis, a workspace, and a model server by script."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.told_statuses import is_told, is_told_later

PROJECT = Path(__file__).resolve().parent.parent
TOKEN = "test-token-0123456789"
STARTS_WITHIN = 60.0
"""Seconds, on a machine that does much else: who is ready sooner is not waited for, and who has ended neither."""

STOPS_WITHIN = 40.0


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Process:
    """One service; ``log`` is what it has written."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    url: str = ""

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.popen.kill()
        self.popen.wait(STOPS_WITHIN)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        try:
            return self.popen.wait(STOPS_WITHIN)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


@dataclass
class Stack:
    """Starts services; everything ends with the ``with`` block of ``open_stack``."""

    folder: Path
    database_url: str
    redis_url: str
    config: Path
    environment: dict[str, str] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        """Where the agent works."""
        return self.folder / "data" / "workspace"

    def start(self, name: str, module: str = "", **environment: str) -> Process:
        """Start a service, or ``module`` in its place; it may not be ready yet."""
        return self.launch(name, [module or f"services.{name}"], environment)

    def launch(
        self, name: str, words: Sequence[str], environment: Mapping[str, str], *, stdin: int = subprocess.DEVNULL
    ) -> Process:
        """Start ``python -m`` with these words, behind which comes the configuration, as that service."""
        log = self.folder / f"{name}-{len(self.processes)}.log"
        with log.open("wb") as out:
            popen = subprocess.Popen(
                [sys.executable, "-m", *words, "-c", str(self.config)],
                cwd=PROJECT,
                env={**self._environment(), **self.environment, **environment},
                stdin=stdin,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        process = Process(name, popen, log)
        self.processes.append(process)
        return process

    def gateway(self) -> Process:
        """Start a gateway on a port of its own and wait until it is ready."""
        port = free_port()
        process = self.start("gateway", LUCYD_HTTP_PORT=str(port))
        process.url = f"http://127.0.0.1:{port}"
        wait_until(lambda: _ready(process), f"the gateway is ready; its log: {process.log}")
        return process

    def workers(self, count: int = 1, module: str = "") -> list[Process]:
        """Start agent workers, or ``module`` in their place, and wait until each has said that it runs."""
        started = [self.start("agent_worker", module) for _ in range(count)]
        for process in started:
            wait_until(lambda process=process: _has_started(process), "the worker has started")
        return started

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "LANG", "TMPDIR"}}
        return {
            **kept,
            "LUCYD_DATABASE_URL": self.database_url,
            "LUCYD_REDIS_URL": self.redis_url,
            "LUCYD_DATA_DIR": str(self.folder / "data"),
            "LUCYD_HTTP_TOKEN": TOKEN,
        }


def unlimited(toml: str) -> str:
    """The configuration with limits of requests that no test meets by being quick, where it says nothing of them."""
    http = tomllib.loads(toml).get("http", {})
    quick = "".join(f"{name} = 1000000\n" for name in ("rate_limit", "status_rate_limit") if name not in http)
    if "[http]\n" in toml:
        return toml.replace("[http]\n", f"[http]\n{quick}", 1)
    return f"{toml}\n[http]\n{quick}"


@contextlib.contextmanager
def open_stack(folder: Path, database_url: str, redis_url: str, toml: str) -> Iterator[Stack]:
    """A stack without any process yet; ends whatever was started in it."""
    (folder / "data" / "workspace").mkdir(parents=True, exist_ok=True)
    config = folder / "lucyd.toml"
    config.write_text(unlimited(toml), "utf-8")
    stack = Stack(folder, database_url, redis_url, config)
    try:
        yield stack
    finally:
        for process in stack.processes:
            if process.popen.poll() is None:
                process.popen.send_signal(signal.SIGCONT)
                process.popen.terminate()
        for process in stack.processes:
            try:
                process.popen.wait(STOPS_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()


def client(gateway: Process, **options: Any) -> httpx2.Client:
    """An HTTP client that may come in."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    hooks = {"response": [is_told]}
    return httpx2.Client(base_url=gateway.url, headers=headers, timeout=30, event_hooks=hooks, **options)


def async_client(gateway: Process, **options: Any) -> httpx2.AsyncClient:
    """The same for many requests at once."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    hooks = {"response": [is_told_later]}
    return httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=60, event_hooks=hooks, **options)


def wait_until(holds: Any, what: str, *, within: float = STARTS_WITHIN, every: float = 0.02) -> None:
    """Wait until ``holds()`` is true; fails the test, saying what was waited for. Looks ``every`` so many seconds."""
    end = time.monotonic() + within
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"not within {within} s: {what}")
        time.sleep(every)


def _has_started(process: Process) -> bool:
    """Whether it has said so; fails the test when it has ended instead."""
    said = text_of(process)
    assert process.popen.poll() is None, f"{process.name} has ended; its last words: {said[-2000:]}"
    return "service_started" in said


def _ready(process: Process) -> bool:
    assert process.popen.poll() is None, f"{process.name} has ended; its last words: {text_of(process)[-2000:]}"
    try:
        return httpx2.get(f"{process.url}/readyz", timeout=2).status_code == 200
    except httpx2.HTTPError:
        return False


def text_of(process: Process) -> str:
    """What the process has logged so far."""
    return process.log.read_text("utf-8", "replace")


Event = tuple[str, str, Any]
"""A server-sent event: id, type, data."""


class EventReader:
    """Reads server-sent events line by line; comments are left out."""

    def __init__(self) -> None:
        self._id = self._kind = ""

    def take(self, line: str) -> Event | None:
        """The event that this line makes whole, if it does."""
        name, _, value = line.partition(": ")
        match name:
            case "id":
                self._id = value
            case "event":
                self._kind = value
            case "data":
                return self._id, self._kind, json.loads(value)
        return None


def read_events(lines: Iterator[str]) -> list[Event]:
    """All of a stream that has ended."""
    reader = EventReader()
    return [event for line in lines if (event := reader.take(line)) is not None]


def model_toml(
    provider: str, base_url: str, *, streaming: bool = True, extra: str = "", rates: Sequence[str] = ()
) -> str:
    """A configuration whose primary model is at ``base_url``."""
    return f"""
[agent]
name = "Testbert"

[models.primary]
provider = "{provider}"
model = "scripted-1"
base_url = "{base_url}"
max_tokens = 1000
max_context_tokens = 100000
cost_per_mtok = [{", ".join(rates or ("3.0", "15.0", "0.30", "3.75"))}]
supports_streaming = {str(streaming).lower()}

[behavior]
api_retry_base_delay = 0.05
{extra}
"""
