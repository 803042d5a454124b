"""What a person who has just cloned the project does: start it, talk to it, stop it, start it again."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest

from tests.stack import free_port, wait_until

pytestmark = pytest.mark.alone

READY_WITHIN = 60.0


SERVICES = {"gateway", "agent_worker", "telegram_bridge", "indexer", "consolidator", "scheduler"}


class Launched:
    """A launcher in the foreground of a terminal that nobody looks at."""

    def __init__(self, home: Path, project: Path, **environment: str) -> None:
        self.home = home
        self.port = free_port()
        self.out = home / "launcher.out"
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "TMPDIR"}}
        self.environment: dict[str, str] = {**kept, "HOME": str(home), "LUCYD_HTTP_PORT": str(self.port), **environment}
        self._project = project
        self.popen: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start and wait until it says that it is ready; how many seconds that took."""
        started = time.monotonic()
        with self.out.open("wb") as out:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "deploy.local"],
                cwd=self._project,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                # As a terminal does; whoever runs these tests in the background has SIGINT ignored, and so would we.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
        wait_until(lambda: "Lucyd is ready" in self.text or self.popen.poll() is not None, "ready", within=READY_WITHIN)
        assert "Lucyd is ready" in self.text, self.text
        return time.monotonic() - started

    @property
    def text(self) -> str:
        """What it has printed."""
        return self.out.read_text("utf-8", "replace")

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """As Ctrl-C does; the exit code."""
        assert self.popen is not None
        self.popen.send_signal(number)
        return self.popen.wait(40)

    def lucyd(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command line, as the same person."""
        return subprocess.run(
            [sys.executable, "-m", "cli", *arguments],
            cwd=self._project,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def pids(self) -> dict[str, int]:
        """Pids of the services, as the monitor tells them."""
        token = (self.home / ".lucyd" / "http_token").read_text().strip()
        address = f"http://127.0.0.1:{self.port}/api/v1/monitor"
        told = httpx2.get(address, headers={"Authorization": f"Bearer {token}"}).json()
        return {service["service"]: int(service["pid"]) for service in told["services"]}


@pytest.fixture
def launched(tmp_path: Path, project: Path) -> Iterator[Launched]:
    """With an empty home."""
    home = tmp_path / "a home with spaces"
    home.mkdir()
    launcher = Launched(home, project)
    try:
        yield launcher
    finally:
        if launcher.popen is not None and launcher.popen.poll() is None:
            launcher.popen.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                launcher.popen.wait(40)


def test_a_stranger_starts_it_talks_to_it_and_finds_everything_again(launched: Launched) -> None:
    """Six processes, a tool, a memory of the conversation, a cost; and after a restart it is all still there."""
    launched.start()
    assert "no model is configured" in launched.text
    assert f"http://127.0.0.1:{launched.port}" in launched.text
    token = launched.home / ".lucyd" / "http_token"
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.read_text().strip() not in launched.text

    said = launched.lucyd("send", "run `echo from-the-shell`")
    assert said.returncode == 0, said.stderr
    assert "from-the-shell" in said.stdout
    assert "$" in said.stderr
    assert launched.lucyd("send", "remember that my cat is called Tom").returncode == 0
    # Not as often as it can: a gateway of a stranger counts what it is asked.
    wait_until(lambda: set(launched.pids()) == SERVICES, "all six services", every=0.5)
    assert launched.stop() == 0

    seconds = launched.start()
    assert "Tom" in launched.lucyd("send", "what do you know about my cat").stdout
    history = launched.lucyd("history").stdout
    assert "from-the-shell" in history
    assert seconds < READY_WITHIN
    assert launched.stop(signal.SIGTERM) == 0


def test_a_chat_sent_the_moment_it_is_ready_is_answered(launched: Launched) -> None:
    """Ready means that somebody answers, also at the very first start, when there is nothing yet."""
    launched.start()
    said = launched.lucyd("send", "are you there?")
    assert said.returncode == 0, said.stderr
    assert said.stdout.strip()


def test_a_workspace_that_is_not_there_is_one_sentence_and_no_greeting(launched: Launched) -> None:
    """Nobody is told that all is ready when no worker can run."""
    launched.home.joinpath("lucyd.toml").write_text('[agent]\nworkspace = "/nowhere/at/all"\n')
    launched.environment["LUCYD_CONFIG"] = str(launched.home / "lucyd.toml")
    with pytest.raises(AssertionError, match="workspace /nowhere/at/all"):
        launched.start()
    assert launched.popen is not None
    assert launched.popen.wait(20) == 1
    assert "Lucyd is ready" not in launched.text
    assert "Traceback" not in launched.text


def test_a_worker_killed_in_the_middle_of_a_chat_is_started_again_and_the_chat_is_answered(launched: Launched) -> None:
    """The launcher's part in the promise."""
    launched.start()
    victim = launched.pids()["agent_worker"]
    mark = launched.home / ".lucyd" / "workspace" / "begun"
    with subprocess.Popen(
        [sys.executable, "-m", "cli", "send", "--json", f"run `touch {mark.name}; sleep 3`"],
        cwd=launched._project,
        env=launched.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as chat:
        wait_until(mark.exists, "the command has begun")
        os.kill(victim, signal.SIGKILL)
        out, error = chat.communicate(timeout=40)
    assert chat.returncode == 0, error
    reply = json.loads(out)
    assert reply["reply"]
    assert any("may or may not have happened" in notice for notice in reply["notices"])
    assert launched.pids()["agent_worker"] != victim
    url = json.loads((launched.home / ".lucyd" / "launcher.json").read_text())["database_url"]
    with psycopg.connect(url) as database:
        assert database.execute("select state, count(*) from runs group by state").fetchall() == [("done", 1)]


def test_lucyd_chat_in_a_terminal_shows_tools_reply_and_cost(launched: Launched) -> None:
    """What a person sees who types `lucyd chat`."""
    launched.start()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(launched._project)
        os.execve(
            sys.executable,
            [sys.executable, "-m", "cli", "chat"],
            {**launched.environment, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
        )
    try:
        _expect(terminal, "lucyd")
        os.write(terminal, b"run `echo seen-in-the-terminal`\r")
        shown = _expect(terminal, "offline")
        assert "exec" in shown
        assert "seen-in-the-terminal" in shown
        os.write(terminal, b"/quit\r")
    finally:
        with contextlib.suppress(OSError):
            os.close(terminal)
        os.waitpid(pid, 0)


def _expect(terminal: int, text: str, *, within: float = 30.0) -> str:
    shown, end = "", time.monotonic() + within
    while text not in shown.casefold():
        if time.monotonic() > end:
            raise AssertionError(f"{text!r} was not shown: {shown!r}")
        ready, _, _ = select.select([terminal], [], [], 0.2)
        if ready:
            shown += os.read(terminal, 65_536).decode("utf-8", "replace")
    return shown
