"""Runs the commands of this checkout as a person does: processes of their own, in an empty home."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PATIENCE = 20.0
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def environment_of(home: Path, **changes: str) -> dict[str, str]:
    """The environment of a person who has nothing of Lucyd yet."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LUCYD_", "PG", "ANTHROPIC_", "OPENAI_", "MISTRAL_"))
    }
    own = {"HOME": str(home), "LUCYD_DATA_DIR": str(home / ".lucyd"), "PYTHONPATH": str(PROJECT), "TERM": "xterm"}
    # No model of this machine is asked: an address of another machine never is.
    return {**kept, **own, "OLLAMA_HOST": "http://192.0.2.1", "COLUMNS": "120", "PYTHONWARNINGS": "error", **changes}


def lucyd(
    home: Path, *words: str, program: str = "cli", typed: str = "", **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run ``lucyd`` (or ``program="cli.lucyd_send"``) to its end; no traceback is ever tolerated."""
    done = subprocess.run(
        [sys.executable, "-m", program, *words],
        env=environment_of(home, **changes), cwd=home, input=typed,
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done


class NeverSeen(AssertionError):
    """The words did not come in time."""


class Terminal:
    """A terminal with a program in it."""

    def __init__(self, process: int, controller: int) -> None:
        self._process = process
        self._controller = controller
        self._seen = ""
        self.raw = ""
        """Everything that was ever shown, styles included."""

    def type(self, text: str) -> None:
        """Press keys; ``\\x04`` is Ctrl-D."""
        os.write(self._controller, text.encode())

    def interrupt(self, until: str) -> str:
        """Press Ctrl-C, and again when nothing happens, as a person does; what was shown up to these words.

        One that comes in the instant before a blocking call of C is noticed with the next key only.
        """
        self.type("\x03")
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self.read_until(until, patience=2.0)
            except NeverSeen:
                if time.monotonic() > end:
                    raise
                self.type("\x03")

    def read_until(self, words: str, *, patience: float = PATIENCE) -> str:
        """What was shown since the last look, without styles, up to these words."""
        until = time.monotonic() + patience
        while words not in _STYLE.sub("", self._seen):
            if time.monotonic() > until:
                raise NeverSeen(f"never saw {words!r}:\n{self._seen}")
            if select.select([self._controller], [], [], 0.1)[0]:
                try:
                    self._read()
                except OSError:
                    raise AssertionError(f"it ended without {words!r}:\n{self._seen}") from None
        shown = _STYLE.sub("", self._seen)
        place = shown.index(words) + len(words)
        self._seen = shown[place:]
        return shown[:place]

    def _read(self) -> None:
        shown = os.read(self._controller, 65536).decode(errors="replace")
        self.raw += shown
        self._seen += shown

    def wait(self) -> int:
        """The exit code, once it ends by itself."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                if select.select([self._controller], [], [], 0.05)[0]:
                    self._read()
            ended, status = os.waitpid(self._process, os.WNOHANG)
            if ended:
                self._process = 0
                return os.waitstatus_to_exitcode(status)
        raise AssertionError(f"it did not end:\n{self._seen}")

    def end(self) -> None:
        """Kill what still runs."""
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
        os.close(self._controller)


@contextlib.contextmanager
def in_terminal(home: Path, *words: str, **changes: str) -> Iterator[Terminal]:
    """``lucyd`` in a terminal of its own."""
    controller, own = pty.openpty()
    # The terminal driver throws away what is under way at Ctrl-C, also what was said right after it.
    modes = termios.tcgetattr(own)
    modes[3] |= termios.NOFLSH
    termios.tcsetattr(own, termios.TCSANOW, modes)
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", *words],
        env=environment_of(home, **changes), cwd=home, stdin=own, stdout=own, stderr=own,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )  # fmt: skip
    os.close(own)
    terminal = Terminal(process.pid, controller)
    try:
        yield terminal
    finally:
        terminal.end()
        process.returncode = 0  # it was waited for by its number


def _take_terminal() -> None:
    import fcntl  # noqa: PLC0415 - runs in the child

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # tests that run in the background have it ignored
