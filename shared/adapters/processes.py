"""Telling one process from every other: host, boot, pid and when the pid was started."""

import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from uuid import UUID

from shared.ports.fleet import Identity


def this_process(*, id: UUID, service: str, version: str) -> Identity:
    """The identity of the process that asks."""
    pid = os.getpid()
    return Identity(id, service, platform.node(), boot_id(), pid, started(pid) or "unknown", version)


def is_gone(identity: Identity) -> bool:
    """True when that process certainly runs no more: it was of this very boot, and its pid is free or another's.

    A container of its own has another pid namespace under the same boot, so the namespace is part of ``boot_id``.
    """
    if identity.host != platform.node() or identity.boot_id != boot_id() or identity.pid_started == "unknown":
        return False
    now = started(identity.pid)
    return now is None or now != identity.pid_started


@cache
def boot_id() -> str:
    """Names this boot of the kernel and the pid namespace; on systems without /proc, the time of boot."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - not a path but a name
    except OSError:
        told = subprocess.run(["sysctl", "-n", "kern.boottime"], capture_output=True, text=True, timeout=5, check=False)
        return told.stdout.strip() or "unknown"


def started(pid: int) -> str | None:
    """When the process of this pid was started, as the system says it; ``None`` when there is none (or a zombie)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/stat").exists():
            return None
        told = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=5, check=False
        )
        return told.stdout.strip() or None
    return None if fields[0] in {"Z", "X"} else fields[19]
