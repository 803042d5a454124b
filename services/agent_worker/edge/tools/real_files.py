"""Files opened by their real path, so that what was checked is what is used.

Between a check and an open, any part of a path may be swapped for a link that leads elsewhere. So no path is handed to
the kernel whole: it is walked folder by folder from the root, and no step follows a link. All calls here block;
call them in a thread.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from services.agent_worker.ports import ToolFailed

_STEP = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASS_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | _STEP
"""Enough to go through a folder that may be entered and not listed."""

_LOCK_WAIT_SECONDS = 10.0
_LOCK_POLL_SECONDS = 0.01


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's errors about ``path`` into sentences for the model (``ToolFailed``)."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolFailed(f"File not found: {path}") from error
    except PermissionError as error:
        raise ToolFailed(f"Permission denied: {path}") from error
    except IsADirectoryError as error:
        raise ToolFailed(f"Not a file: {path}") from error
    except NotADirectoryError as error:
        raise ToolFailed(f"A part of the path is not a folder: {path}") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ToolFailed(f"{path} was changed while it was being opened") from error
        raise ToolFailed(f"Cannot use {path}: {error.strerror}") from error


@contextmanager
def open_folder(folder: Path, *, create: bool = False) -> Iterator[int]:
    """A descriptor of the real ``folder``, reached without following any link; missing folders are made if asked."""
    here = os.open(folder.anchor, _PASS_THROUGH)
    try:
        for part in folder.parts[1:]:
            below = _step(part, here, create=create)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _step(part: str, here: int, *, create: bool) -> int:
    try:
        return os.open(part, _PASS_THROUGH, dir_fd=here)
    except FileNotFoundError:
        if not create:
            raise
    with suppress(FileExistsError):  # another call made it just now
        os.mkdir(part, dir_fd=here)
    return os.open(part, _PASS_THROUGH, dir_fd=here)


@contextmanager
def open_file(path: Path) -> Iterator[BufferedReader]:
    """The regular file at the real ``path``, for reading. A folder, pipe or device is refused (``ToolFailed``)."""
    with open_folder(path.parent) as folder, _open_in(folder, path) as stream:
        yield stream


def _open_in(folder: int, path: Path) -> BufferedReader:
    seen = os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)
    _require_regular(seen, path)
    # Not blocking: should a named pipe take the file's place right now, opening it must not wait for a writer.
    file = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    opened = os.fstat(file)
    if (opened.st_dev, opened.st_ino) != (seen.st_dev, seen.st_ino):
        os.close(file)
        raise OSError(errno.ELOOP, "changed")
    return os.fdopen(file, "rb")


def _require_regular(seen: os.stat_result, path: Path) -> None:
    if stat.S_ISLNK(seen.st_mode):  # the path was real a moment ago
        raise OSError(errno.ELOOP, "changed")
    if not stat.S_ISREG(seen.st_mode):
        raise ToolFailed(f"Not a file: {path}")


def digest(path: Path) -> str | None:
    """SHA-256 of the file at the real ``path`` in hexadecimal, ``None`` when there is none."""
    with file_errors(path):
        try:
            with open_file(path) as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except FileNotFoundError:
            return None


class Folder:
    """A folder whose files are being replaced; nobody else who asks for it that way gets in between."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path

    def read(self, name: str, *, at_most: int) -> bytes:
        """All bytes of a file. Raises ``ToolFailed`` when it has more than ``at_most``."""
        path = self._path / name
        with _open_in(self._descriptor, path) as stream:
            data = stream.read(at_most + 1)
        if len(data) > at_most:
            raise ToolFailed(f"{path} is larger than {at_most} bytes")
        return data

    def replace(self, name: str, data: bytes, *, mode: int | None = None) -> None:
        """Make ``data`` the file's whole content: at any instant, also in a crash, it is the old or the new one.

        A replaced file keeps its mode (and its owner, where that may be given); one that is not writable stays.
        A ``mode`` is set before the file has its name.
        """
        old = self._existing(name)
        temporary = f".lucyd-{secrets.token_hex(8)}.tmp"
        try:
            self._fill(temporary, data, old, mode)
            os.rename(temporary, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self._descriptor)
            raise
        with suppress(OSError):  # not every file system can; the content itself is safe already
            os.fsync(self._descriptor)

    def _existing(self, name: str) -> os.stat_result | None:
        try:
            seen = os.stat(name or ".", dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        _require_regular(seen, self._path / name)
        # A rename asks only the folder; the file's own mode has to be asked for.
        if not os.access(name, os.W_OK, dir_fd=self._descriptor, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(errno.EACCES, "not writable")
        return seen

    def _fill(self, name: str, data: bytes, old: os.stat_result | None, mode: int | None) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(name, flags, 0o666 if old is None and mode is None else 0o600, dir_fd=self._descriptor)
        with os.fdopen(file, "wb") as stream:
            if old is not None:
                _dress(file, old)
            if mode is not None:
                os.fchmod(file, mode)
            stream.write(data)
            stream.flush()
            os.fsync(file)


def _dress(file: int, old: os.stat_result) -> None:
    new = os.fstat(file)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(PermissionError):
            os.fchown(file, old.st_uid, old.st_gid)
    os.fchmod(file, stat.S_IMODE(old.st_mode))  # after the owner: changing that drops bits


@contextmanager
def changing(folder: Path, *, create: bool = False) -> Iterator[Folder]:
    """The real ``folder`` for reading and replacing files in it, under a lock that other processes honour too.

    Calls of one turn run at the same time, and two edits of one file must not lose each other. Raises ``ToolFailed``
    when the lock is not free within ten seconds.
    """
    with open_folder(folder, create=create) as passing:
        # Only a folder opened for reading can be locked and synchronised.
        descriptor = os.open(".", os.O_RDONLY | _STEP, dir_fd=passing)
        try:
            _lock(descriptor, folder)
            yield Folder(descriptor, folder)
        finally:
            os.close(descriptor)  # unlocks


def _lock(descriptor: int, folder: Path) -> None:
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise ToolFailed(f"Another call keeps {folder} locked") from error
            time.sleep(_LOCK_POLL_SECONDS)
        except OSError:
            return  # a file system without locks: as good as it gets
        else:
            return
