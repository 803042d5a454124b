"""What a hang-up means depends on whether there is a terminal to hang up."""

import os
import pty
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]

WAITS = """
import sys, time
from contextlib import suppress
from deploy.local.interruption import StopAsked, stop_on_signals

with suppress(StopAsked), stop_on_signals(lambda: None, restart=lambda: print("restart", flush=True)):
    print("ready", flush=True)
    time.sleep(20)
print("ended", flush=True)
"""


def _read_until(terminal: int, word: bytes) -> bytes:
    said = b""
    until = time.monotonic() + 10
    with suppress(OSError):  # the last end of the terminal was closed
        while word not in said and time.monotonic() < until:
            said += os.read(terminal, 4096)
    return said


def test_a_shell_that_says_goodbye_ends_what_it_started() -> None:
    """zsh, and bash with `huponexit`, hang up their jobs while the terminal is still there: nobody else will do it."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(PROJECT)
        os.execv(sys.executable, [sys.executable, "-c", WAITS])
    try:
        _read_until(terminal, b"ready")
        os.kill(pid, signal.SIGHUP)
        said = _read_until(terminal, b"ended")
        assert b"ended" in said
        assert b"restart" not in said
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
