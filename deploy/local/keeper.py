"""Keep one program running: start it, watch it, start it again, end it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from deploy.local.backoff import next_pause
from deploy.local.child import Child
from deploy.local.log_file import LogReader, keep_small
from deploy.local.log_lines import line_to_show
from shared.errors import ConfigError

REFUSES_CONFIGURATION = 78
"""The exit code with which a program says that no restart will help (EX_CONFIG of sysexits.h)."""

_REFUSES = 1
"""What the services say with sentences for the operator; Python itself says it with a traceback."""

_HELD = timedelta(seconds=1)
"""How long plain text waits to be shown: it may be the last words of a service that refuses its configuration."""


@dataclass(frozen=True, slots=True)
class Program:
    """What is kept running: how to start it, and the log it writes.

    ``read_along`` is for logs in the services' own form, whose warnings a person should see at once.
    """

    name: str
    log: Path
    start: Callable[[], Child]
    read_along: bool = True


class Keeper:
    """One program with its present process and its bad luck. Nothing happens between the calls of ``watch``."""

    def __init__(self, program: Program, show: Callable[[str], None]) -> None:
        """Take the program without starting it; ``show`` gets each line that the person in front should see."""
        self._program = program
        self._show = show
        self._child: Child | None = None
        self._successor: Child | None = None
        self._predecessor: Child | None = None
        self._is_proven = False
        self._reader = LogReader(program.log)
        self._held: list[str] = []
        self._held_since = 0.0
        self._started = 0.0
        self._pause: timedelta | None = None  # before the present start; None for the first
        self._due: float | None = None

    @property
    def name(self) -> str:
        """The program's."""
        return self._program.name

    def start(self) -> None:
        """Start the program."""
        self._reader = LogReader(self._program.log)
        self.adopt(self._program.start())

    def adopt(self, child: Child) -> None:
        """Take a process of the program that runs already."""
        self._child, self._due, self._started = child, None, time.monotonic()

    def watch(self) -> None:
        """Show what the log says, and start the program again when it has died and waited long enough.

        ConfigError when it refuses its configuration: its words are in the error, and no restart would help.
        """
        if self._child is not None and (code := self._child.exit_code()) is not None:
            self._mourn(self._child, code)
        elif self._due is not None and time.monotonic() >= self._due:
            self.start()
        self._hold(self._new_lines())
        keep_small(self._program.log)
        if self._held and time.monotonic() - self._held_since >= _HELD.total_seconds():
            self._show_held()

    def start_successor(self) -> Child:
        """Start one more process of the program, which is to follow the present one."""
        self._successor = self._program.start()
        return self._successor

    def last_words(self, end: str) -> list[str]:
        """What a successor that is not fit has written, as sentences; what it logged is shown."""
        self._hold(self._new_lines(to_the_end=True))
        said, self._held = self._held, []
        if any(line.startswith("Traceback ") for line in said):
            said = []  # the log has it, and nobody wants to read it twice
        return [*said, f"{self._program.name} {end}; see {self._program.log}"]

    def drop_successor(self) -> None:
        """End the successor; the present process goes on."""
        if self._successor is not None:
            self._successor.stop()
            self._successor = None

    def promote_successor(self) -> None:
        """Take the successor for the present process, and ask the one before it to end."""
        self._predecessor, successor = self._child, self._successor
        self._successor = None
        if successor is not None:
            self.adopt(successor)
            self._is_proven, self._pause = True, None
        if self._predecessor is not None:
            self._predecessor.ask_to_stop()

    def predecessor_is_gone(self) -> bool:
        """Whether the process that was followed has ended. Its tether sees to it that it does."""
        if self._predecessor is not None and self._predecessor.exit_code() is not None:
            self._predecessor.stop()
            self._predecessor = None
        return self._predecessor is None

    def ask_to_stop(self) -> None:
        """Ask the process to end and return at once."""
        self._due = None
        for child in self._all():
            child.ask_to_stop()

    def stop(self) -> None:
        """End the process in order, killing it once its patience is over, and show its last words."""
        self._due = None
        for child in self._all():
            child.stop()
        self._child = self._successor = self._predecessor = None
        self._hold(self._new_lines(to_the_end=True))
        self._show_held()

    def hush(self) -> None:
        """Show nothing more; the log has it all."""
        self._show = _say_nothing

    def kill(self) -> None:
        """End the process now."""
        self._due = None
        for child in self._all():
            child.kill()

    def _all(self) -> list[Child]:
        return [each for each in (self._predecessor, self._child, self._successor) if each is not None]

    def _mourn(self, child: Child, code: int) -> None:
        child.stop()
        self._child = None
        name, log = self._program.name, self._program.log
        self._hold(self._new_lines(to_the_end=True))
        if self._was_refusal(code):
            raise ConfigError([*self._held, f"{name} can't run with this configuration; see {log}"])
        self._show_held()
        now = time.monotonic()
        self._pause = next_pause(self._pause, timedelta(seconds=now - self._started))
        self._due = now + self._pause.total_seconds()
        how = f"was killed by signal {code - 128}" if code > 128 else f"ended with exit code {code}"
        self._show(f"{name} {how}; it starts again in {self._pause.total_seconds():g} s; see {log}")

    def _was_refusal(self, code: int) -> bool:
        """Tell a configuration that can't work from a crash, and from an outage met by a later start."""
        if code == REFUSES_CONFIGURATION:
            return True
        crashed = any(line.startswith("Traceback ") for line in self._held)
        return code == _REFUSES and self._pause is None and not self._is_proven and bool(self._held) and not crashed

    def _new_lines(self, *, to_the_end: bool = False) -> Sequence[str]:
        return self._reader.new_lines(to_the_end=to_the_end) if self._program.read_along else ()

    def _hold(self, lines: Sequence[str]) -> None:
        """Show what says how bad it is, hold back plain text for a moment."""
        for line in lines:
            shown = line_to_show(line)
            if shown is not None and shown != line:
                self._show(f"{self._program.name} | {shown}")
            elif shown is not None:
                self._held_since = self._held_since if self._held else time.monotonic()
                self._held.append(line)

    def _show_held(self) -> None:
        for line in self._held:
            self._show(f"{self._program.name} | {line}")
        self._held.clear()


def _say_nothing(_line: str) -> None:
    return


def stop_together(keepers: Sequence[Keeper]) -> None:
    """End several programs: ask all of them at once, so that the longest patience is the longest wait."""
    for keeper in keepers:
        keeper.ask_to_stop()
    for keeper in keepers:
        keeper.stop()
