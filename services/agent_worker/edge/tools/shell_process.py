"""One shell command as a session of processes that never outlives whoever waits for it.

Three ways end it before its time: the timeout, cancellation, and the death of this process by whatever signal. For
the first two the whole session is killed from here. For the third, ``PR_SET_PDEATHSIG`` would not do: it reaches the
shell alone and not what the shell started, hangs on a thread, and asks for ``preexec_fn``, which is unsafe beside
threads. So a sentry goes along (under 1 ms): a subshell of the same session that waits on a pipe of which only we hold
the other end. A line means that the command ended as it should; end of file means that we are gone, or want it gone,
and it kills the session. While it stands, the number of the process group can't be given to anybody else.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from services.agent_worker.rules.head_and_tail import HeadAndTail

_PIPES_SECONDS = 1.0
"""How long output is still awaited after the shell has ended: a process left in the background may hold the pipe."""

_REAP_SECONDS = 2.0
_POLL_SECONDS = 0.02
_READ_BYTES = 64 * 1024
_BREATH_SECONDS = 0.001
_BREATH_BYTES = 1024 * 1024

# The sentry is started by a subshell that ends at once, so that the command does not find a child it never started
# (programs that wait until they have no child left would wait for ever). `$$` is the leader of the session, also
# in subshells. Members with a process group of their own (`timeout` makes one) are found by their session, the rest
# is the group, the sentry included. Where there is no /proc, the group is all that can be found.
# When the machine runs out of memory, the kernel takes the command first, and neither the sentry nor the worker.
_WITH_SENTRY = """
exec 3<&0 </dev/null
(
  {
    if read -r over; then exit; fi
    for file in /proc/[0-9]*/stat; do
      read -r line <"$file" || continue
      number=${file#/proc/}
      set -- ${line##*) }
      if [ "$4" = "$$" ] && [ "$3" != "$$" ]; then kill -KILL "${number%/stat}"; fi
    done
    kill -KILL 0
  } <&3 >/dev/null 2>&1 &
)
exec 3<&-
{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null
{limits}
exec "$@"
"""
_BLOCK = 512
_STANDS_BACK = 5
"""How nice a command is: the worker's other conversations come first."""


@dataclass(frozen=True, slots=True)
class ShellLimits:
    """What each process of a command may use; 0 is without limit."""

    cpu_seconds: int = 0
    memory_bytes: int = 0
    file_bytes: int = 0

    @property
    def spoken(self) -> str:
        """As a shell takes them. A lower limit that is there already stays."""
        wanted = (("t", self.cpu_seconds), ("d", self.memory_bytes // 1024), ("f", self.file_bytes // _BLOCK))
        return "".join(f"ulimit -{letter} {value} 2>/dev/null\n" for letter, value in wanted if value)


@dataclass(frozen=True, slots=True)
class ShellOutcome:
    """How a command ended. ``exit_code`` is ``None`` after a timeout, 128 + n after signal n."""

    exit_code: int | None
    stdout: str
    stderr: str


async def run_shell(
    command: str,
    *,
    shell: str,
    folder: Path,
    environment: Mapping[str, str],
    timeout: timedelta,
    capture: int,
    before: Sequence[str] = (),
    limits: ShellLimits | None = None,
) -> ShellOutcome:
    """Run ``command`` and return how it ended; of each output stream about ``capture`` bytes are kept, head and tail.

    ``before`` are words that run the shell, such as a sandbox. Processes that the command leaves in the background live
    on if it ends by itself and no sandbox ends them, their output is heard no more.
    Raises ``OSError`` or ``ValueError`` when the command can't be started.
    """
    script = _WITH_SENTRY.replace("{limits}", (limits or ShellLimits()).spoken)
    with ExitStack() as open_ends:
        with ExitStack() as given:
            out, err = _Capture(capture, open_ends, given), _Capture(capture, open_ends, given)
            sentry_ear, sentry_mouth = os.pipe()
            open_ends.callback(os.close, sentry_mouth)
            given.callback(os.close, sentry_ear)
            # Not by the event loop: uvloop lets descriptors slip through to the command, and so its pipes never end.
            process = subprocess.Popen(  # noqa: ASYNC220 - about a millisecond, as in asyncio itself
                ["/bin/sh", "-c", script, shell, *before, shell, "-c", command],
                stdin=sentry_ear,
                stdout=out.mouth,
                stderr=err.mouth,
                cwd=folder,
                env=dict(environment),
                start_new_session=True,
            )
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _STANDS_BACK)
        exit_code = await _exit_code(process, timeout)
        await asyncio.wait({out.ended, err.ended}, timeout=_PIPES_SECONDS)
        if exit_code is not None:
            with suppress(BrokenPipeError):  # the command may have killed its own group, sentry included
                os.write(sentry_mouth, b"\n")
        return ShellOutcome(exit_code, out.kept.text(), err.kept.text())


async def _exit_code(process: subprocess.Popen[bytes], timeout: timedelta) -> int | None:
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            code = await _end(process)
        return 128 - code if code < 0 else code
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            kill_session(process.pid)
            # Bounded: a process that hangs within the kernel takes even SIGKILL only when it comes out.
            with suppress(TimeoutError):
                async with asyncio.timeout(_REAP_SECONDS):
                    await _end(process)


async def _end(process: subprocess.Popen[bytes]) -> int:
    """Wait for the process and reap it."""
    try:
        handle = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # another system, or a container that forbids it
        return await end_by_polling(process)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
        return process.wait()  # it has ended: this does not wait
    finally:
        loop.remove_reader(handle)
        os.close(handle)


async def end_by_polling(process: subprocess.Popen[bytes]) -> int:
    """Wait for the process and reap it, where nothing tells of its end."""
    while process.poll() is None:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(_POLL_SECONDS)
    return process.wait()


def kill_session(leader: int) -> None:
    """SIGKILL for the process group of a session's leader and for members that left the group, as ``timeout`` does."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    for member in _members(leader):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(member, signal.SIGKILL)


def _members(session: int) -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _session_of(entry) == session]


def _session_of(process: Path) -> int | None:
    try:
        # The name in parentheses may itself contain spaces and parentheses; after the last one come
        # state, parent, group, session.
        return int((process / "stat").read_bytes().rpartition(b")")[2].split()[3])
    except (OSError, IndexError, ValueError):
        return None  # gone meanwhile


class _Capture:
    """Hears one output stream to its end and keeps its head and tail; ``mouth`` is what the command writes to.

    The descriptor is watched directly: a transport of the loop would own it, and the loops disagree on who closes it
    when its making is cancelled.
    """

    def __init__(self, limit: int, open_ends: ExitStack, given: ExitStack) -> None:
        self.kept = HeadAndTail(limit)
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._since_breath = 0
        self._ear, self.mouth = os.pipe()
        open_ends.callback(self._close)
        given.callback(os.close, self.mouth)
        os.set_blocking(self._ear, False)
        self._listen()

    def _close(self) -> None:
        """Hear no more; whoever still writes gets a broken pipe."""
        self._loop.remove_reader(self._ear)
        os.close(self._ear)
        self._ear = -1

    def _listen(self) -> None:
        if self._ear >= 0:
            self._loop.add_reader(self._ear, self._hear)

    def _hear(self) -> None:
        try:
            data = os.read(self._ear, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return  # woken for nothing
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._ear)
            if not self.ended.done():
                self.ended.set_result(None)
            return
        self.kept.feed(data)
        if self.kept.is_over:
            self._breathe(len(data))

    def _breathe(self, heard: int) -> None:
        """What comes now is mostly thrown away; a flood must not take the event loop from the other conversations."""
        self._since_breath += heard
        if self._since_breath >= _BREATH_BYTES:
            self._since_breath = 0
            self._loop.remove_reader(self._ear)
            self._loop.call_later(_BREATH_SECONDS, self._listen)
