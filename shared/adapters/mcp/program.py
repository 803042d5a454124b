"""A server that is a program of its own, spoken with over its standard input and output.

The SDK has such a transport. This one bounds what the program may write in a line and say on standard error, gives it
no variable that nobody named, and leaves no process behind whatever ends the worker. For that there is a sentry, as for
``exec``: a shell that waits on a pipe whose other end only we hold, and ends the program's session when we are gone.
"""

import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import IO, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from shared.adapters.mcp.journal import LONGEST_HEARD, Journal
from shared.domain.mcp_server import McpServer

LARGEST_MESSAGE = 16 * 1024 * 1024
_READ_BYTES = 64 * 1024
_ENDS_BY_ITSELF = 2.0
_ENDS_WHEN_ASKED = 1.0
_KILLED_WITHIN = 0.5
_FLUSHED_WITHIN = 0.5
_POLL = 0.02

# First comes the number of the program's process, which leads its session. Another line: it has ended as it should. End
# of file: we are gone. Members with a process group of their own are found by their session, the rest is the group.
_SENTRY = """
read -r leader || exit
if read -r over; then exit; fi
for file in /proc/[0-9]*/stat; do
  read -r line <"$file" || continue
  number=${file#/proc/}
  set -- ${line##*) }
  if [ "$4" = "$leader" ] && [ "$3" != "$leader" ]; then kill -KILL "${number%/stat}"; fi
done
kill -KILL "-$leader"
"""


class _Process:
    """The program, and the sentry that outlives us for a moment."""

    def __init__(self, server: McpServer) -> None:
        """Start both. Raises ``OSError`` or ``ValueError`` when the program can't be started."""
        with ExitStack() as given:
            ear, self._mouth = os.pipe()
            given.callback(os.close, ear)
            # First, so that there is no moment in which nobody would notice our end.
            self._sentry = subprocess.Popen(
                ["/bin/sh", "-c", _SENTRY],
                stdin=ear,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                start_new_session=True,
            )
        try:
            # Not by the event loop: see shell_process of the worker.
            self._popen = subprocess.Popen(
                server.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=server.folder,
                env=dict(server.environment),
                start_new_session=True,
            )
        except BaseException:
            self._dismiss()
            raise
        os.write(self._mouth, f"{self._popen.pid}\n".encode())
        self.input, self.output, self.error = (
            cast(IO[bytes], pipe) for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr)
        )
        for pipe in (self.input, self.output, self.error):
            os.set_blocking(pipe.fileno(), False)

    async def ended(self) -> None:
        """Wait until the program has ended; it stays as a zombie, so that its number is nobody else's."""
        while not self._has_ended():
            try:
                handle = os.pidfd_open(self._popen.pid)
            except (AttributeError, OSError):  # another system, or a container that forbids it
                await anyio.sleep(_POLL)
                continue
            try:
                await anyio.wait_readable(handle)
            finally:
                os.close(handle)

    def _has_ended(self) -> bool:
        return os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def signal(self, number: int) -> None:
        """To the program and all that it has started."""
        leader = self._popen.pid
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, number)
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError, IndexError, ValueError):
                if int(stat.read_bytes().rpartition(b")")[2].split()[3]) == leader:
                    os.kill(int(stat.parent.name), number)

    async def end(self) -> int | None:
        """Make it end: its input is closed, then it is asked, then it is killed. Its exit code, if it has one."""
        self.close(self.input)
        try:
            for within, number in ((_ENDS_BY_ITSELF, signal.SIGTERM), (_ENDS_WHEN_ASKED, signal.SIGKILL)):
                with anyio.move_on_after(within) as waiting:
                    await self.ended()
                if not waiting.cancelled_caught:
                    break
                self.signal(number)
            await anyio.sleep(_POLL)  # its last words are still heard
        finally:  # also of a task that is cancelled in here
            self.signal(signal.SIGKILL)  # those that it has left behind
            with suppress(subprocess.TimeoutExpired):  # what hangs within the kernel comes out of it when it comes out
                self._popen.wait(_KILLED_WITHIN)
            self._dismiss()
            for pipe in (self.output, self.error):
                self.close(pipe)
        return self._popen.returncode

    def close(self, pipe: IO[bytes]) -> None:
        """Close one of its pipes, also while somebody waits for it."""
        if not pipe.closed:
            anyio.notify_closing(pipe.fileno())
            pipe.close()

    def _dismiss(self) -> None:
        with suppress(OSError):
            os.write(self._mouth, b"\n\n")
        os.close(self._mouth)
        with suppress(subprocess.TimeoutExpired):
            self._sentry.wait(0.5)  # it has nothing more to do than to read that: a millisecond


@asynccontextmanager
async def open_program(server: McpServer, journal: Journal) -> AsyncIterator[TransportStreams]:
    """Start the program, and speak with it until the block ends. Raises ``OSError`` when it can't be started."""
    process = _Process(server)
    heard_in, heard_out = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    told_in, told_out = anyio.create_memory_object_stream[SessionMessage](0)
    flushed = anyio.Event()

    async def write() -> None:
        try:
            await _write(process, told_out)
        except OSError:
            pass  # it listens no more; its end is noticed where it is waited for
        finally:
            flushed.set()

    async def wait() -> None:
        await process.ended()
        process.signal(signal.SIGKILL)  # what it has left behind holds its pipes, and nobody speaks with that

    async def read() -> None:
        try:
            await _read(process, heard_in, journal)
        finally:
            heard_in.close()
            journal.ended.set()

    async with heard_in, heard_out, told_in, told_out, anyio.create_task_group() as tasks:
        for each in (write, wait, read):
            tasks.start_soon(each)
        tasks.start_soon(_hear, process, journal)
        try:
            yield heard_out, told_in
        finally:
            with anyio.CancelScope(shield=True):  # every wait in here is bounded
                heard_out.close()
                told_in.close()
                with anyio.move_on_after(_FLUSHED_WITHIN):
                    await flushed.wait()
                journal.exit_code = await process.end()
            tasks.cancel_scope.cancel()


async def _read(process: _Process, heard: MemoryObjectSendStream[SessionMessage | Exception], journal: Journal) -> None:
    lines = _Lines(LARGEST_MESSAGE)
    while data := await _some(process.output):
        for line in lines.of(data):
            if not line.strip():
                continue
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                if journal.spoke_rubbish():
                    return
                continue
            try:
                await heard.send(SessionMessage(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
        if lines.overflow:
            journal.fault = f"it wrote a message of more than {LARGEST_MESSAGE} bytes"
            return


async def _hear(process: _Process, journal: Journal) -> None:
    lines = _Lines(LONGEST_HEARD, cut=True)
    while data := await _some(process.error):
        for line in lines.of(data):
            journal.said(line)
    for line in lines.of(b"\n"):
        journal.said(line)


async def _write(process: _Process, told: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async for each in told:
        data = memoryview(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        while data:
            try:
                data = data[os.write(process.input.fileno(), data) :]
            except BlockingIOError:
                await anyio.wait_writable(process.input)


async def _some(pipe: IO[bytes]) -> bytes:
    """What is there to read, once there is; nothing at the end, ours or the program's."""
    while True:
        try:
            await anyio.wait_readable(pipe.fileno())
            return os.read(pipe.fileno(), _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            continue
        except (OSError, ValueError, anyio.ClosedResourceError):
            return b""


class _Lines:
    """Cuts what comes into lines. One longer than ``longest`` bytes is ``overflow``, or with ``cut`` loses its rest."""

    def __init__(self, longest: int, *, cut: bool = False) -> None:
        self._longest = longest
        self._cut = cut
        self._pieces: list[bytes] = []
        self._size = 0
        self.overflow = False

    def of(self, data: bytes) -> list[bytes]:
        """The lines that this makes whole."""
        *ends, rest = data.split(b"\n")
        found = []
        for end in ends:
            self._add(end)
            found.append(b"".join(self._pieces))
            self._pieces, self._size = [], 0
        self._add(rest)
        return found

    def _add(self, piece: bytes) -> None:
        room = self._longest - self._size
        if len(piece) > room:
            self.overflow = not self._cut
            piece = piece[:room]
        if piece:
            self._pieces.append(piece)
            self._size += len(piece)
