"""Ask a running launcher to restart its services, and hear what became of it: two files and a signal.

Whoever asks writes ``restart.wanted`` (which services) and sends the signal. The launcher tells in ``restart.json``.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from deploy.local import state
from deploy.local.interruption import RESTART
from shared.errors import ConfigError

_WANTED = "restart.wanted"
_TOLD = "restart.json"
_TURN = "restart.lock"
_LOOK = 0.05
_BEGINS_WITHIN = timedelta(seconds=120)
"""A restart that is under way is ended first."""

_ENDS_WITHIN = timedelta(minutes=60)

STOPPED = "it was stopped meanwhile"


@dataclass(frozen=True, slots=True)
class Told:
    """What a launcher tells: how many restarts were begun and ended, and of the last one each line and each error."""

    launcher: int
    begun: int = 0
    ended: int = 0
    lines: tuple[str, ...] = ()
    errors: tuple[str, ...] = field(default=())


class Account:
    """The launcher's side."""

    def __init__(self, folder: Path) -> None:
        """Nothing has been restarted yet; what an earlier launcher left is put away."""
        self._folder = folder
        self._told = Told(os.getpid())
        (folder / _WANTED).unlink(missing_ok=True)
        self._write()

    def begin(self) -> Sequence[str]:
        """A restart begins; of which services, none named: of all."""
        wanted = self._folder / _WANTED
        try:
            names = [str(name) for name in json.loads(wanted.read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError):
            names = []
        wanted.unlink(missing_ok=True)
        self._told = Told(self._told.launcher, self._told.begun + 1, self._told.ended)
        self._write()
        return names

    def line(self, line: str) -> None:
        """One step was done."""
        self._told = replace(self._told, lines=(*self._told.lines, line))
        self._write()

    def end(self, errors: Sequence[str] = ()) -> None:
        """The restart is over."""
        self._told = replace(self._told, ended=self._told.begun, errors=tuple(errors))
        self._write()

    def close(self) -> None:
        """Nobody listens any more."""
        (self._folder / _TOLD).unlink(missing_ok=True)

    def _write(self) -> None:
        state.write_private(self._folder / _TOLD, json.dumps(asdict(self._told)) + "\n")


def ask_restart(folder: Path, services: Sequence[str] = (), *, show: Callable[[str], None] = lambda _: None) -> None:
    """Have the launcher of this data folder restart services (none named: all) and wait until it has.

    ``show`` gets a line for each process that was followed by another. Raises ``ConfigError`` with the sentences to
    print: nothing runs there, or a new process was not fit, and what ran before goes on.
    """
    _launcher_of(folder)  # before anything is written there
    with _turn(folder):
        _ask(folder, services, show)


def _ask(folder: Path, services: Sequence[str], show: Callable[[str], None]) -> None:
    before = _launcher_of(folder)
    state.write_private(folder / _WANTED, json.dumps(list(services)) + "\n")
    try:
        os.kill(before.launcher, RESTART)
    except ProcessLookupError as fault:
        raise ConfigError([STOPPED]) from fault
    now = time.monotonic()
    begins, ends = now + _BEGINS_WITHIN.total_seconds(), now + _ENDS_WITHIN.total_seconds()
    shown = 0
    while True:
        told = _read(folder)
        if told is None or told.launcher != before.launcher or not state.is_claimed(folder):
            raise ConfigError([STOPPED])
        mine = told.begun > before.begun
        if mine:
            for line in told.lines[shown:]:
                show(line)
            shown = len(told.lines)
            if told.ended == told.begun:
                break
        if time.monotonic() >= (ends if mine else begins):
            raise ConfigError([f"it did not {'end' if mine else 'begin'} in time; see what the launcher says"])
        time.sleep(_LOOK)
    if told.errors:
        raise ConfigError(list(told.errors))


def _launcher_of(folder: Path) -> Told:
    """What the launcher tells that runs there now. Its number may be another's by now if it was killed, and a signal
    would end that one: so what is read counts only while the folder is held, and whoever takes it puts away the rest.
    """
    if state.is_claimed(folder) and (told := _read(folder)) is not None:
        return told
    raise ConfigError([f"no `lucyd up` or `make run` of this version runs with the data folder {folder}"])


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Two who ask at once would overwrite what the other one wants: one after the other."""
    lock = os.open(folder / _TURN, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + _BEGINS_WITHIN.total_seconds()
    try:
        while not state.take_alone(lock):
            if time.monotonic() >= until:
                raise ConfigError(["another restart is under way and does not end"])
            time.sleep(_LOOK)
        yield
    finally:
        os.close(lock)


def _read(folder: Path) -> Told | None:
    try:
        known = json.loads((folder / _TOLD).read_text(encoding="utf-8"))
        lines, errors = tuple(map(str, known["lines"])), tuple(map(str, known["errors"]))
        return Told(int(known["launcher"]), int(known["begun"]), int(known["ended"]), lines, errors)
    except (OSError, ValueError, KeyError, TypeError):
        return None
