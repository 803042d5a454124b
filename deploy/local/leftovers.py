"""Find and end a server that an earlier launcher left running in our folder."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

_ASKED = timedelta(seconds=10)
_KILLED = timedelta(seconds=5)


def is_server(pid: int, program: str, folder: Path, mark: str) -> bool:
    """Tell whether ``pid`` is ``program`` working in ``folder``, not merely somebody who got its number.

    Where there is no /proc the command line decides: it has to name the program and ``mark``.
    """
    if pid <= 1:
        return False
    if sys.platform.startswith("linux"):
        try:
            process = Path("/proc") / str(pid)
            return (process / "comm").read_text().strip() == program[:15] and (process / "cwd").readlink() == folder
        except OSError:
            return False
    shown = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False, timeout=10
    )
    return program in shown.stdout and mark in shown.stdout


def end(pid: int, stop: signal.Signals) -> None:
    """Ask the process to end, insist after ten seconds, return when it is gone."""
    for number, patience in ((stop, _ASKED), (signal.SIGKILL, _KILLED)):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        until = time.monotonic() + patience.total_seconds()
        while time.monotonic() < until:
            if not is_alive(pid):
                return
            time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Tell whether the process exists; one that waits to be reaped does not count."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return not sys.platform.startswith("linux")


def first_number(file: Path) -> int:
    """Return the pid that the file begins with, 0 when there is none."""
    try:
        return int(file.read_text(encoding="utf-8", errors="replace").split(maxsplit=1)[0])
    except (OSError, ValueError, IndexError):
        return 0
