"""Hold one process on a tether: when the launcher goes, however it goes, the process goes.

Run as a script, ``python -I -S tether.py STOP LAST IDENTITY LOCK GIVEN -- command ...``, with a pipe as standard input
whose other end only the launcher holds. The pipe is the whole protocol: ``s`` asks the command to stop and waits
``LAST`` seconds, ``k`` ends it at once, and end of file means that the launcher is dead: ask, wait a few seconds, then
end it.

It is a process of its own because nothing less works everywhere: the kernel's "signal me when my parent dies" is
Linux only, follows the parent's thread rather than its process, and is forgotten when a process changes its user.
It imports the standard library's smallest parts only, since eight of these run beside the services.
"""

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress

AFTER_A_CRASH = 5.0
"""Seconds a process gets to stop by itself once its launcher has died: well inside the ten that are promised."""

NOT_STARTED = 127
"""Exit code when the command could not be run at all."""

_CLONE_NEWUSER = 0x10000000
_PR_SET_PDEATHSIG = 1
_HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


def enter_namespace(uid: int, gid: int) -> None:
    """Become ``uid`` in a user namespace of one's own: files stay the caller's, yet the process is not root.

    Raises OSError where the kernel or a container's profile refuses.
    """
    own_uid, own_gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare was refused")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {own_uid} 1"), ("gid_map", f"{gid} {own_gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib costs 10 ms of start
            file.write(text)


def become_user(uid: int, gid: int) -> None:
    """Give up root for good."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def take_identity(identity: str) -> None:
    """Change into ``self``, ``namespace:UID:GID`` or ``user:UID:GID``."""
    if identity == "self":
        return
    kind, uid, gid = identity.split(":")
    (enter_namespace if kind == "namespace" else become_user)(int(uid), int(gid))


def die_with_parent(number: int, parent: int) -> None:
    """On Linux, ask for a signal when the tether itself is killed; called last, since a change of user forgets it."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def run_command(command: list[str], identity: str, stop: int, parent: int) -> None:
    """In the child: become who is asked for and turn into the command. Does not return."""
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in (*_HEARD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        take_identity(identity)
        # Postgres may finish what it writes; whatever else is left without a tether has no claim to time.
        die_with_parent(stop if stop == signal.SIGINT else signal.SIGKILL, parent)
        os.execv(command[0], command)
    except OSError as fault:
        os.write(2, f"{command[0]}: {fault}\n".encode())
    os._exit(NOT_STARTED)


class Tether:
    """Wait for the command, the launcher and the clock, whichever comes first."""

    def __init__(self, pid: int, stop: int, last: float) -> None:
        self._pid = pid
        self._stop = stop
        self._last = last
        self._deadline: float | None = None
        self._asked = False
        self._ears = [0]

    def hold(self, wake: int) -> int:
        """Return the command's exit code, 128 + n after signal n."""
        self._ears.append(wake)
        while True:
            done, status = os.waitpid(self._pid, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            self._listen(wake)
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self._kill()

    def _listen(self, wake: int) -> None:
        left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        heard, _, _ = select.select(self._ears, [], [], left)
        if wake in heard and set(os.read(wake, 64)) & {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}:
            self._ask_to_stop(self._last)
        if 0 in heard:
            self._obey(os.read(0, 64))

    def _obey(self, words: bytes) -> None:
        if b"k" in words:
            self._kill()
        elif words:
            self._ask_to_stop(self._last)
        else:
            self._ears.remove(0)
            self._ask_to_stop(min(self._last, AFTER_A_CRASH))

    def _ask_to_stop(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._deadline = until if self._deadline is None else min(self._deadline, until)
        if not self._asked:
            self._asked = True
            with suppress(ProcessLookupError):
                os.kill(self._pid, self._stop)

    def _kill(self) -> None:
        self._deadline = time.monotonic() + 1.0
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)


def main(arguments: list[str]) -> int:
    """Start the command and hold it."""
    stop, last, identity, lock, given, _, *command = arguments
    if int(lock) >= 0:
        # The tether's copy of the lock says that something of this launcher still lives; the command needs none.
        os.set_inheritable(int(lock), False)  # noqa: FBT003 - the standard library takes it so
    wake, alarm = os.pipe()
    os.set_blocking(alarm, False)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    for number in _HEARD:
        signal.signal(number, lambda *_: None)
    parent = os.getpid()
    # Blocked over the fork, so that no signal meets the child while it still has our handlers.
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    pid = os.fork()
    if pid == 0:
        run_command(command, identity, int(stop), parent)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
    if int(given) >= 0:
        os.close(int(given))  # it is the command's, and must be closed when that closes it
    return Tether(pid, int(stop), float(last)).hold(wake)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
