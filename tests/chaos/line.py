"""A line between one worker and Postgres that breaks when it is told to: in COMMIT, or so that a statement comes late.

Understands just enough of the protocol to know which function a statement calls. A line under TLS is handed through and
never broken.
"""

import asyncio
import contextlib
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

NEVER_TYPED = frozenset({80877102, 80877103, 80877104})
"""Codes of messages before the startup: cancel, TLS, GSSAPI."""

AIMED = (b"lucyd_store", b"lucyd_claim")


@dataclass
class Statements:
    """Reads what a client sends. ``feed`` returns the queries that were told to run with these bytes."""

    _rest: bytes = b""
    _typed: bool = False
    _named: dict[bytes, bytes] = field(default_factory=dict)

    def feed(self, data: bytes) -> list[bytes]:
        """Go on with the next bytes."""
        self._rest += data
        run: list[bytes] = []
        while True:
            head = 5 if self._typed else 4
            if len(self._rest) < head:
                return run
            length = struct.unpack("!I", self._rest[head - 4 : head])[0] + head - 4
            if len(self._rest) < length:
                return run
            message, self._rest = self._rest[:length], self._rest[length:]
            if self._typed:
                run += self._statement(message[:1], message[5:])
            else:
                self._typed = struct.unpack("!I", message[4:8])[0] not in NEVER_TYPED

    def _statement(self, kind: bytes, body: bytes) -> list[bytes]:
        match kind:
            case b"P":
                name, query, _ = body.split(b"\0", 2)
                self._named[name] = query
            case b"B":
                return [self._named.get(body.split(b"\0", 2)[1], b"")]
            case b"Q":
                return [body]
        return []


class Line:
    """A listening port of its own before the server; one for each worker."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.port = 0
        self.cut = 0
        self.late: list[Callable[[], None]] = []
        self._server = server
        self._to_cut = 0
        self._holds = False
        self._listening: asyncio.Server | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen on a free port."""
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listening.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Cut everything."""
        if self._listening is not None:
            self._listening.close()
        for task in list(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def cut_in_commit(self, count: int) -> None:
        """Give the next claims and steps to the server, and cut each line before the answer comes back."""
        self._to_cut = count

    def hold_steps(self) -> None:
        """Keep the next steps back until ``deliver``, also when who sent them is gone by then."""
        self._holds = True

    def deliver(self) -> None:
        """Give the server what was kept back."""
        self._holds = False
        for send in self.late:
            send()
        self.late.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            server_reader, server_writer = await asyncio.open_connection(*self._server)
            try:
                await self._carry(reader, writer, server_reader, server_writer)
            finally:
                server_writer.close()
        writer.close()

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        silent = asyncio.Event()
        there = asyncio.create_task(self._there(reader, server_writer, silent))
        back = asyncio.create_task(_back(server_reader, writer, silent))
        try:
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
            if silent.is_set() and not back.done():
                await asyncio.wait({back}, timeout=10)
        finally:
            there.cancel()
            back.cancel()
            await asyncio.gather(there, back, return_exceptions=True)

    async def _there(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, silent: asyncio.Event) -> None:
        statements = Statements()
        while data := await reader.read(65536):
            queries = statements.feed(data)
            if self._holds and any(b"lucyd_store" in query for query in queries):
                await self._held()
                silent.set()
            elif self._to_cut > 0 and any(name in query for query in queries for name in AIMED):
                self._to_cut -= 1
                self.cut += 1
                silent.set()
            server.write(data)
            await server.drain()

    async def _held(self) -> None:
        delivered = asyncio.Event()
        self.late.append(delivered.set)
        await delivered.wait()


async def _back(server: asyncio.StreamReader, writer: asyncio.StreamWriter, silent: asyncio.Event) -> None:
    """Hand answers back; the first one after ``silent`` ends the line instead: the server has committed by then."""
    while data := await server.read(65536):
        if silent.is_set():
            return
        writer.write(data)
        await writer.drain()
