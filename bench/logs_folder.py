"""The folder in which the processes of one bench leave their logs: gone when all was right, kept and named when not."""

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


class LogsFolder:
    """``was_right`` is set by whoever has measured."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.was_right = False


@contextlib.contextmanager
def logs_folder(name: str) -> Iterator[LogsFolder]:
    """A fresh folder for as long as the block lasts, and longer when something in it went wrong."""
    logs = LogsFolder(Path(tempfile.mkdtemp(prefix=f"lucyd-{name}-")))
    try:
        yield logs
    finally:
        if logs.was_right:
            shutil.rmtree(logs.path, ignore_errors=True)
        else:
            sys.stderr.write(f"the logs of all processes are in {logs.path}\n")
