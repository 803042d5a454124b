"""What is on this machine: folders, files, ports, processes. Looks only; nothing is made or changed."""

import os
import socket
import stat
from collections.abc import Iterable
from pathlib import Path

from cli.rules.diagnosis import FolderState

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def look_at_folder(path: Path) -> FolderState:
    """What this user may do with a folder that may not exist."""
    # Those of os.path, which say no where nothing may be looked at.
    exists = os.path.isdir(path)  # noqa: PTH112 - as above
    maker = next((each for each in path.parents if os.path.exists(each)), Path("/"))  # noqa: PTH110 - as above
    return FolderState(
        path=str(path),
        exists=exists,
        readable=exists and os.access(path, os.R_OK | os.X_OK),
        writable=exists and os.access(path, os.W_OK | os.X_OK),
        open_to_others=exists and open_to_others(path),
        file=next((str(each) for each in (path, *path.parents) if is_file(each)), ""),
        maker_writable=not exists and maker.is_dir() and os.access(maker, os.W_OK | os.X_OK),
    )


def open_to_others(path: Path) -> bool:
    """Whether other users may read or write it; false when it can't be told."""
    try:
        return bool(path.stat().st_mode & _OTHERS)
    except OSError:
        return False


def unreadable(files: Iterable[Path]) -> list[str]:
    """The names of those that exist and can't be read."""
    return [each.name for each in files if is_file(each) and not os.access(each, os.R_OK)]


def is_file(path: Path) -> bool:
    """Whether it is a file; false also where nothing may be looked at."""
    return os.path.isfile(path)  # noqa: PTH113 - that of Path raises there


def is_port_taken(host: str, port: int) -> bool:
    """Whether nobody else could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return True
    return False


def is_alive(pid: int) -> bool:
    """Whether a process with this number runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
