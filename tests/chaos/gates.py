"""The thread between the one who plans the faults and the workers they come to: lines over a unix socket.

To a worker: ``close <boundary>``, ``pass <boundary>``, ``open``, ``clock <seconds>``, ``block <key> <how> <seconds>``.
From it: ``hello <pid>``, ``at <boundary> <count>``, ``blocking <key>``, ``blocked <began> <ended> <how>``.
"""

import asyncio
import contextlib
import os
from collections import Counter
from pathlib import Path

HELD_AT_MOST = 4.0
"""Seconds for which a run is held at a boundary, whatever comes."""

ORDERED_WITHIN = 8.0
"""Seconds for which a tool waits to be told how to block."""


class Gates:
    """A worker's end. A run that reaches a closed gate waits until it is opened, or some seconds."""

    def __init__(self, address: str) -> None:
        self.clock_is_off = 0.0
        self._address = address
        self._closed: dict[str, asyncio.Event] = {}
        self._full: list[asyncio.Event] = []
        self._orders: dict[str, asyncio.Future[tuple[str, float]]] = {}
        self._writer: asyncio.StreamWriter | None = None

    async def listen(self) -> None:
        """Do what is told until the other end is gone."""
        reader, self._writer = await asyncio.open_unix_connection(self._address)
        self.say(f"hello {os.getpid()}")
        while line := (await reader.readline()).decode().strip():
            order, _, rest = line.partition(" ")
            match order:
                case "close":
                    self._closed.setdefault(rest, asyncio.Event())
                case "pass" if rest in self._closed:
                    self._full.append(self._closed.pop(rest))
                case "open":
                    self._let_through()
                case "clock":
                    self.clock_is_off = float(rest)
                case "block":
                    key, how, seconds = rest.split()
                    if key in self._orders and not self._orders[key].done():
                        self._orders[key].set_result((how, float(seconds)))

    def say(self, line: str) -> None:
        """Tell the other end, if it is there."""
        if self._writer is not None:
            self._writer.write(f"{line}\n".encode())

    async def stand(self, boundary: str, count: int = 1) -> None:
        """Wait here while the gate is closed."""
        gate = self._closed.get(boundary)
        if gate is not None:
            self.say(f"at {boundary.replace(' ', '_')} {count}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HELD_AT_MOST):
                    await gate.wait()

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
        for gate in (*self._closed.values(), *self._full):
            gate.set()
        self._closed.clear()
        self._full.clear()


class Signals:
    """The other end: one for all workers."""

    def __init__(self, address: Path) -> None:
        self.address = address
        self.standing: Counter[str] = Counter()
        self.blocking: dict[str, int] = {}
        self.blocked: list[tuple[int, float, float, str]] = []
        self._closed: set[str] = set()
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_unix_server(self._serve, str(self.address))

    async def close(self) -> None:
        """Hang up on all."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers.values():
            writer.close()

    def hold(self, boundaries: frozenset[str]) -> None:
        """Close these gates everywhere."""
        self.standing.clear()
        self._closed = set(boundaries)
        for boundary in boundaries:
            self._tell_all(f"close {boundary}")

    def let_pass(self, boundary: str) -> None:
        """Enough stand there: those that come now go through, those that stand there stay."""
        if boundary in self._closed:
            self._closed.discard(boundary)
            self._tell_all(f"pass {boundary}")

    def let_all_pass(self) -> None:
        """Open every gate."""
        self._closed.clear()
        self._tell_all("open")

    def tell(self, pid: int, line: str) -> bool:
        """Tell one worker; false when it is not there."""
        writer = self._writers.get(pid)
        if writer is None or writer.is_closing():
            return False
        writer.write(f"{line}\n".encode())
        return True

    def _tell_all(self, line: str) -> None:
        for pid in list(self._writers):
            self.tell(pid, line)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid = 0
        with contextlib.suppress(OSError):
            while line := (await reader.readline()).decode().split():
                match line:
                    case ["hello", number]:
                        pid = int(number)
                        self._writers[pid] = writer
                        for boundary in self._closed:
                            self.tell(pid, f"close {boundary}")
                    case ["at", boundary, count]:
                        self.standing[boundary.replace("_", " ")] += int(count)
                    case ["blocking", key]:
                        self.blocking[key] = pid
                    case ["blocked", began, ended, how]:
                        self.blocked.append((pid, float(began), float(ended), how))
        if self._writers.get(pid) is writer:
            del self._writers[pid]
        writer.close()
