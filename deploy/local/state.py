"""What the launcher keeps in the data folder: ports, secrets, locks. All of it is its owner's alone."""

import fcntl
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from shared.errors import ConfigError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LEFTOVERS_TAKE = timedelta(seconds=12)


def open_folder(folder: Path, *, show: Callable[[str], None] = print) -> Path:
    """Make the data folder, for its owner alone, and return its real path; ConfigError when it can't be used.

    One that other users could enter is shut, and ``show`` gets a line about it.
    """
    if file := next((each for each in (folder, *folder.parents) if os.path.isfile(each)), None):  # noqa: PTH113 - as below
        raise ConfigError([f"the data folder can't be {folder}: {file} is a file, not a folder; set LUCYD_DATA_DIR"])
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        real = folder.resolve(strict=True)
        owner = real.stat().st_uid
        (real / "logs").mkdir(mode=0o700, exist_ok=True)
        write_private(real / ".writable", "")
        (real / ".writable").unlink()
    except OSError as fault:
        said = f"the data folder {folder} can't be read and written: {fault.strerror or fault}"
        raise ConfigError([f"{said}; make it yours (chown, chmod 700), or set LUCYD_DATA_DIR"]) from fault
    if owner != os.geteuid():
        raise ConfigError([f"the data folder {real} belongs to another user (uid {owner}): start Lucyd as that user"])
    if (mode := stat.S_IMODE(real.stat().st_mode)) & _OTHERS and not _opened_for_postgres(mode):
        real.chmod(0o700)
        show(f"the data folder {real} was open to other users (mode {mode:03o}); now it is yours alone (700)")
    return real


def _opened_for_postgres(mode: int) -> bool:
    """Whether it is as ``as_root`` leaves it where the user nobody has to pass through."""
    return os.geteuid() == 0 and mode == 0o710


def write_private(file: Path, text: str) -> None:
    """Replace ``file`` as a whole, readable by its owner only at every moment."""
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)
    new.replace(file)


def read_secret(file: Path) -> str | None:
    """Return what the file holds, None when there is none or it is empty."""
    try:
        return file.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None


def keep_secret(file: Path) -> str:
    """Return the secret in ``file``, made at the first call."""
    if (known := read_secret(file)) is not None:
        return known
    secret = secrets.token_urlsafe(32)
    write_private(file, f"{secret}\n")
    return secret


def read_ports(folder: Path) -> dict[str, int]:
    """Return the ports of the last start by server name; a damaged file counts as none."""
    try:
        known = json.loads((folder / "local.json").read_text(encoding="utf-8"))
        ports = known["ports"]
        return {str(name): int(port) for name, port in ports.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_ports(folder: Path, ports: Mapping[str, int]) -> None:
    """Remember the ports for the next start."""
    write_private(folder / "local.json", json.dumps({"ports": dict(ports)}, indent=1) + "\n")


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to run things in a data folder. ``lock`` is handed to each child, see ``claim``."""

    folder: Path
    lock: int


@contextmanager
def claim(folder: Path) -> Iterator[Claim]:
    """Hold the folder for this process; ConfigError when another launcher has it.

    Two locks: one says that a launcher lives, the other, shared with every tether, that something it started
    still does. After a crash the second outlives the first by a few seconds, and the heir waits for it.
    """
    own = _open_lock(folder / "launcher.lock")
    try:
        if not _take(own, fcntl.LOCK_EX):
            raise ConfigError([f"Lucyd is already running with the data folder {folder}; stop it first"])
        children = _open_lock(folder / "children.lock")
        try:
            _wait_for_leftovers(children)
            yield Claim(folder, children)
        finally:
            os.close(children)
    finally:
        os.close(own)


def is_claimed(folder: Path) -> bool:
    """Tell whether a launcher runs on the folder now."""
    try:
        lock = os.open(folder / "launcher.lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _take(lock, fcntl.LOCK_SH)
    finally:
        os.close(lock)


def take_alone(lock: int) -> bool:
    """Take the lock of an open file unless somebody has it; closing the file gives it back."""
    return _take(lock, fcntl.LOCK_EX)


def _open_lock(file: Path) -> int:
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _take(lock: int, kind: int) -> bool:
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_for_leftovers(lock: int) -> None:
    """Wait until the last launcher's tethers are gone; what outlives the wait is found by its pid file later."""
    until = time.monotonic() + _LEFTOVERS_TAKE.total_seconds()
    while not _take(lock, fcntl.LOCK_EX) and time.monotonic() < until:
        time.sleep(0.05)
    _take(lock, fcntl.LOCK_SH)
