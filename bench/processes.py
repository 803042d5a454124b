"""What processes have used, as the kernel counts it. Linux only: it reads ``/proc``."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and of its children that have ended and were waited for; 0 when it is gone."""
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / _TICKS if fields else 0.0


def cpu_seconds_of_tree(root: int) -> float:
    """CPU time of a process and of all that descend from it."""
    return sum(map(cpu_seconds, descendants(root)))


def descendants(root: int) -> Sequence[int]:
    """A process and all that descend from it."""
    children = _children()
    found: list[int] = []
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, ())
    return found


def resident_bytes(pid: int) -> int:
    """Resident memory; 0 when the process is gone."""
    try:
        return int((_PROC / str(pid) / "statm").read_text("ascii").split()[1]) * _PAGE
    except OSError:
        return 0


def machine_busy() -> float:
    """Seconds of CPU that the whole machine has used since it was started, all cores together."""
    fields = list(map(int, (_PROC / "stat").read_text("ascii").split("\n", 1)[0].split()[1:9]))
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / _TICKS


def parent_of(pid: int) -> int:
    """Who started it; 0 when it is gone."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def used_between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """The seconds that went by in between for each name of ``after``."""
    return {name: max(0.0, seconds - before.get(name, 0.0)) for name, seconds in after.items()}


def _stat(pid: int) -> Sequence[str]:
    """The fields after the name, which may hold anything: state first, then the parent."""
    try:
        return (_PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return ()


def _children() -> Mapping[int, Sequence[int]]:
    found: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (parent := parent_of(int(entry.name))):
            found.setdefault(parent, []).append(int(entry.name))
    return found
