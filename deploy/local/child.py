"""A process of ours: started on a tether, stopped in the agreed way, never left behind."""

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import IO

from deploy.local import tether
from shared.runtime.scheduling import let_others_finish

SELF = "self"
"""The identity of a process that runs as whoever started it."""

_KILL_TAKES = timedelta(seconds=5)


class Child:
    """One tethered process. It ends when this process ends, whether or not anything was called."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: IO[bytes] | int,
        stop: signal.Signals = signal.SIGTERM,
        patience: timedelta = timedelta(seconds=25),
        identity: str = SELF,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        lock: int | None = None,
        given: int | None = None,
    ) -> None:
        """Start ``command`` (an absolute path first) with both outputs in ``log``.

        ``stop`` is the signal that asks it to end and ``patience`` how long it may take before it is killed. ``lock``
        is a descriptor that stays open for as long as the process is held, ``given`` one that the process itself gets,
        under its number.
        """
        self._patience = patience
        passed = [each for each in (lock, given) if each is not None]
        numbers = [str(-1 if each is None else each) for each in (lock, given)]
        words = [str(int(stop)), str(patience.total_seconds()), identity, *numbers]
        # A session of its own: Ctrl-C in the terminal reaches the launcher alone, which ends things in order.
        self._tether = subprocess.Popen(
            [sys.executable, "-I", "-S", tether.__file__, *words, "--", *map(str, command)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,
            pass_fds=passed,
        )
        let_others_finish(self._tether.pid)  # Postgres does not ask for that itself; the tether has started nothing yet

    @property
    def pid(self) -> int:
        """Of the tether, which is the parent of the process."""
        return self._tether.pid

    @property
    def output(self) -> IO[bytes] | None:
        """What the process prints, where ``log`` was ``subprocess.PIPE``."""
        return self._tether.stdout

    def exit_code(self) -> int | None:
        """None while it runs; 128 + n after signal n."""
        return self._tether.poll()

    def wait(self, time: timedelta) -> int | None:
        """Wait for its end, at most ``time``; None when it still runs."""
        try:
            return self._tether.wait(time.total_seconds())
        except subprocess.TimeoutExpired:
            return None

    def ask_to_stop(self) -> None:
        """Ask it to end and return at once; the tether kills it when its patience is over."""
        self._say(b"s")

    def kill(self) -> None:
        """End it now."""
        self._say(b"k")

    def stop(self) -> int | None:
        """Ask, wait, and in the end insist. Doing it twice does nothing more."""
        self.ask_to_stop()
        if self.wait(self._patience + _KILL_TAKES) is None:
            self._tether.kill()
            self.wait(_KILL_TAKES)
        if self._tether.stdin is not None:
            with suppress(OSError):
                self._tether.stdin.close()
        return self.exit_code()

    def _say(self, word: bytes) -> None:
        if self._tether.stdin is None or self._tether.stdin.closed:
            return
        with suppress(OSError):  # it has ended already
            self._tether.stdin.write(word)
            self._tether.stdin.flush()
