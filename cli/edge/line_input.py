"""Asks the person for a line, with the history of earlier ones."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from cli.rules.failure import Failure

try:
    import readline
except ImportError:  # a Python built without it: lines can still be typed
    readline = None  # type: ignore[assignment]

PROMPT = "you> "
KEPT = 1000


class LineInput:
    """Lines of standard input; with a prompt when a person types them."""

    def __init__(self, *, prompt: str) -> None:
        self._prompt = prompt

    def ask(self) -> str | None:
        """The next line; empty when it was abandoned with Ctrl-C, ``None`` at the end.

        Raises ``Failure`` when what comes through a pipe is no text.
        """
        try:
            return input(self._prompt)
        except EOFError:
            return None
        except KeyboardInterrupt:
            if not self._prompt:
                raise
            print()
            return ""
        except UnicodeDecodeError as fault:
            if not self._prompt:
                raise Failure("Standard input is not UTF-8 text.") from fault
            print("That was not text in this terminal's encoding; please type it again.")
            return ""


@contextlib.contextmanager
def open_line_input(history: Path) -> Iterator[LineInput]:
    """Ask until the block ends; what was typed at a terminal is kept in ``history``, for its owner alone."""
    if not sys.stdin.isatty():
        yield LineInput(prompt="")
        return
    if readline is None:
        yield LineInput(prompt=PROMPT)
        return
    # An unreadable or unwritable history costs only the history.
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(KEPT)
    try:
        yield LineInput(prompt=PROMPT)
    finally:
        with contextlib.suppress(OSError):
            if history.parent.is_dir():
                os.close(os.open(history, os.O_CREAT | os.O_WRONLY, 0o600))
                readline.write_history_file(history)
