"""The thread between the one who plans the faults and the workers they come to: lines over a unix socket.

To a worker: ``close <whom> <gate>``, ``open``, ``clock <seconds>``, ``block <key> <how> <seconds>``. A gate is a
boundary, or ``take``, before which wake-ups are taken. ``all`` are held there, or only the ``aimed``: see ``aimed_at``.
From it: ``hello <pid>``, ``blocking <key>``, ``blocked <began> <ended> <how>``.
"""

import asyncio
import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from tests.chaos.boundaries import aimed_at

ALL, AIMED, TAKE = "all", "aimed", "take"
HELD_AT_MOST = 4.0
"""Seconds for which a run is held at a boundary, whatever comes."""

ORDERED_WITHIN = 8.0
"""Seconds for which a tool waits to be told how to block."""


class Gates:
    """A worker's end. A run that reaches a closed gate waits until it is opened, or some seconds."""

    def __init__(self, address: str) -> None:
        self.clock_is_off = 0.0
        self._address = address
        self._closed: dict[str, tuple[str, asyncio.Event]] = {}
        self._orders: dict[str, asyncio.Future[tuple[str, float]]] = {}
        self._writer: asyncio.StreamWriter | None = None

    async def listen(self) -> None:
        """Do what is told until the other end is gone."""
        reader, self._writer = await asyncio.open_unix_connection(self._address)
        self.say(f"hello {os.getpid()}")
        try:
            while line := (await reader.readline()).decode().strip():
                order, _, rest = line.partition(" ")
                match order:
                    case "close":
                        whom, _, gate = rest.partition(" ")
                        self._closed.setdefault(gate, (whom, asyncio.Event()))
                    case "open":
                        self._let_through()
                    case "clock":
                        self.clock_is_off = float(rest)
                    case "block":
                        key, how, seconds = rest.split()
                        if key in self._orders and not self._orders[key].done():
                            self._orders[key].set_result((how, float(seconds)))
        finally:
            self._writer.close()

    def say(self, line: str) -> None:
        """Tell the other end, if it is there."""
        if self._writer is not None:
            self._writer.write(f"{line}\n".encode())

    async def stand(self, gate: str, conversations: Iterable[str] = ()) -> None:
        """Wait here while the gate is closed, if these are to be held there."""
        whom, opened = self._closed.get(gate, (ALL, None))
        if opened is not None and (whom == ALL or any(aimed_at(each) == gate for each in conversations)):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HELD_AT_MOST):
                    await opened.wait()

    async def order(self, key: str) -> tuple[str, float]:
        """How to block, and for how many seconds; nothing at all when nobody says so in time."""
        self._orders[key] = asyncio.get_running_loop().create_future()
        self.say(f"blocking {key}")
        try:
            async with asyncio.timeout(ORDERED_WITHIN):
                return await self._orders[key]
        except TimeoutError:
            return "not", 0.0
        finally:
            del self._orders[key]

    def _let_through(self) -> None:
        for _, opened in self._closed.values():
            opened.set()
        self._closed.clear()


class Signals:
    """The other end: one for all workers. ``door`` is a file that is there while all may pass; tools look at it."""

    def __init__(self, address: Path) -> None:
        self.address = address
        self.blocking: dict[str, int] = {}
        self.blocked: list[tuple[int, float, float, str]] = []
        self.door = address.with_name("door")
        self._closed: list[str] = []
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_unix_server(self._serve, str(self.address))
        self.door.touch()

    async def close(self) -> None:
        """Hang up on all."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers.values():
            writer.close()

    def hold(self, boundaries: Iterable[str], whom: str) -> None:
        """Close these gates everywhere, for all or for the aimed."""
        self.door.unlink(missing_ok=True)
        self._closed = [f"close {whom} {boundary}" for boundary in boundaries]
        for order in self._closed:
            for pid in list(self._writers):
                self.tell(pid, order)

    def let_all_pass(self) -> None:
        """Open every gate."""
        self.door.touch()
        self._closed.clear()
        for pid in list(self._writers):
            self.tell(pid, "open")

    def tell(self, pid: int, line: str) -> bool:
        """Tell one worker; false when it is not there."""
        writer = self._writers.get(pid)
        if writer is None or writer.is_closing():
            return False
        writer.write(f"{line}\n".encode())
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid = 0
        with contextlib.suppress(OSError):
            while line := (await reader.readline()).decode().split():
                match line:
                    case ["hello", number]:
                        pid = int(number)
                        self._writers[pid] = writer
                        for order in self._closed:
                            self.tell(pid, order)
                    case ["blocking", key]:
                        self.blocking[key] = pid
                    case ["blocked", began, ended, how]:
                        self.blocked.append((pid, float(began), float(ended), how))
        if self._writers.get(pid) is writer:
            del self._writers[pid]
        writer.close()
