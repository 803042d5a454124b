"""A folder whose files are only memory: what the tests' servers sync there costs nothing.

The servers keep the settings that Lucyd insists on, ``fsync`` among them. Whoever tests what a server still knows after
its death starts one of his own on the disk.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
PROCESSES = Path("/proc")
ROOM = 3 * 1024**3
"""Bytes that must be free: two databases for each of a few tests, and what Postgres keeps of its log."""

_PREFIX = "lucyd-tests-"


@contextmanager
def memory_folder() -> Iterator[Path | None]:
    """An empty folder in memory until the block ends; None where there is no such place, or too little room in it."""
    if not os.access(MEMORY, os.W_OK):
        yield None
        return
    _clear_after_the_dead()
    if shutil.disk_usage(MEMORY).free < ROOM:
        yield None
        return
    folder = MEMORY / f"{_PREFIX}{os.getpid()}"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _clear_after_the_dead() -> None:
    """Remove what tests left that were killed: nobody else ever would, and it is memory."""
    for left in MEMORY.glob(f"{_PREFIX}*"):
        owner = left.name.removeprefix(_PREFIX)
        if owner == str(os.getpid()) or not (PROCESSES / owner).exists():
            shutil.rmtree(left, ignore_errors=True)
