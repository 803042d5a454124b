"""One connection to Postgres, asked by the shortest way.

psycopg connects, converts values and names errors. The statement itself goes through libpq at once: psycopg's cursor,
its lock and its waiting, which begins to watch the socket anew with every statement, cost several times as much. What
is sent, and what comes of the answer, is the same as with psycopg's own ``execute``.
"""

import asyncio
import contextlib
import functools
import itertools
import os
import re
import socket
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

CANCEL_WITHIN = timedelta(seconds=1)
CALLED_OFF_WITHIN = timedelta(seconds=5)
PREPARED_AT = 3
"""Sent for so many times, a statement is prepared: from then on Postgres keeps its plan."""

MOST_PREPARED = 200

Row = tuple[Any, ...]
_KNOWN = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK, ExecStatus.FATAL_ERROR, ExecStatus.EMPTY_QUERY)
_PERCENT = re.compile(r"%(.)", re.DOTALL)


@functools.lru_cache(maxsize=500)
def _numbered(query: str) -> tuple[bytes, tuple[PyFormat, ...]]:
    """The statement as Postgres reads it, ``%s`` as ``$1`` and so on, and how the value of each of them is sent: as
    psycopg likes, or as bytes for ``%b``. What is large goes so: as text it is longer, and takes seconds to make."""
    places: list[PyFormat] = []

    def number(found: re.Match[str]) -> str:
        match found[1]:
            case "s" | "b":
                places.append(PyFormat.AUTO if found[1] == "s" else PyFormat.BINARY)
                return f"${len(places)}"
            case "%":
                return "%"
        raise psycopg.ProgrammingError(f"a place for a value is written %s or %b, not {found[0]}")

    return _PERCENT.sub(number, query).encode(), tuple(places)


class Line(psycopg.AsyncConnection[Row]):
    """A connection whose end never has to be waited for. Asked by one task at a time."""

    _loop: asyncio.AbstractEventLoop | None = None
    _waiting: asyncio.Future[None] | None = None
    _fault: psycopg.OperationalError | None = None

    async def ask(self, query: str, parameters: Sequence[Any]) -> list[Row]:
        """All rows of one statement, none when it gives none.

        Raises psycopg's errors. A task that is cancelled has the server stop, as with psycopg; a line on which that
        does not help is closed.
        """
        if self._loop is None:
            self._listen()
        try:
            result = await self._run(query, parameters)
        except BaseException:
            if self.pgconn.status == ConnStatus.OK and self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                await self._call_off()
            raise
        if result.status != ExecStatus.TUPLES_OK:
            return []
        self._values.set_pgresult(result)
        try:
            return self._values.load_rows(0, result.ntuples, tuple)
        finally:
            self._values.set_pgresult(None)

    async def close(self) -> None:
        """Close it now."""
        self._stop_listening()
        await super().close()

    def hang_up(self) -> None:
        """Break the line of a query that takes too long; whoever waits on it gets an ``OperationalError`` at once.

        Not a cancellation: psycopg answers one by asking the very server that does not answer. And not ``close``: that
        frees what the waiting query still reads.
        """
        with contextlib.suppress(psycopg.OperationalError, OSError):
            line = socket.socket(fileno=os.dup(self.pgconn.socket))
            with line:
                line.shutdown(socket.SHUT_RDWR)

    async def cancel_safe(self, *, timeout: float = CANCEL_WITHIN.total_seconds()) -> None:
        """What psycopg does when a query's task is cancelled; a server that does not heed it is left alone."""
        try:
            await super().cancel_safe(timeout=min(timeout, CANCEL_WITHIN.total_seconds()))
        except Exception:
            self.hang_up()
            raise

    async def _run(self, query: str, parameters: Sequence[Any]) -> PGresult:
        statement, places = _numbered(query)
        if len(places) != len(parameters):
            raise psycopg.ProgrammingError(
                f"the statement has {len(places)} places, and {len(parameters)} values were given"
            )
        values = self._values.dump_sequence(parameters, places)
        types, formats = self._values.types or (), self._values.formats
        key = statement, types
        name = self._names.get(key)
        if name is None and self._sent.get(key, 0) + 1 >= PREPARED_AT and len(self._names) < MOST_PREPARED:
            # Never the same name again: whoever was cancelled here does not know whether the server has taken it.
            name = b"l%d" % next(self._numbers)
            self.pgconn.send_prepare(name, statement, types)
            await self._result()
            self._names[key] = name
            del self._sent[key]
        if name is not None:
            self.pgconn.send_query_prepared(name, values, formats)
        else:
            if len(self._sent) >= MOST_PREPARED:
                self._sent.clear()
            self._sent[key] = self._sent.get(key, 0) + 1
            self.pgconn.send_query_params(statement, values, types, formats)
        return await self._result()

    async def _result(self) -> PGresult:
        """What became of the statement that was sent last."""
        if self.pgconn.flush():
            await self._flush()
        last: PGresult | None = None
        while True:
            while self._fault is None and self.pgconn.is_busy():
                await self._more()
            if self._fault is not None:
                raise self._fault
            result = self.pgconn.get_result()
            if result is None:
                break
            if result.status not in _KNOWN:  # a COPY, which would say so for ever
                self.hang_up()
                raise psycopg.InternalError(f"not a statement for this line: {ExecStatus(result.status).name}")
            last = result
        if last is None:
            raise psycopg.InternalError("Postgres gave no result")
        if last.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(last, encoding="utf-8")
        return last

    async def _more(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    async def _flush(self) -> None:
        """Send the rest of what the socket did not take at once; what comes meanwhile is read."""
        loop, fd = asyncio.get_running_loop(), self.pgconn.socket
        while self.pgconn.flush():
            writable: asyncio.Future[None] = loop.create_future()
            loop.add_writer(fd, _wake, writable)
            try:
                await writable
            finally:
                loop.remove_writer(fd)

    async def _call_off(self) -> None:
        """Have the server stop, and wait for the end of the statement."""
        try:
            async with asyncio.timeout(CALLED_OFF_WITHIN.total_seconds()):
                with contextlib.suppress(Exception):
                    await self.cancel_safe()
                with contextlib.suppress(psycopg.Error):
                    await self._result()
        except BaseException as fault:
            # It did not stop, or there is no time to wait for that: in this state the line is of no use.
            self._stop_listening()
            self.pgconn.finish()
            if not isinstance(fault, TimeoutError):  # who is cancelled hears that, and not how it went here
                raise

    def _listen(self) -> None:
        """From here on the socket is watched until the line ends."""
        if self._fault is not None:
            raise self._fault
        self._loop = asyncio.get_running_loop()
        self._values = Transformer(self)
        self._names: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._sent: dict[tuple[bytes, tuple[int, ...]], int] = {}
        self._numbers = itertools.count()
        self._fd = self.pgconn.socket
        self._loop.add_reader(self._fd, self._hear)

    def _hear(self) -> None:
        try:
            self.pgconn.consume_input()
        except psycopg.OperationalError as fault:
            self._fault = fault
            self._stop_listening()
        if self._waiting is not None and (self._fault is not None or not self.pgconn.is_busy()):
            _wake(self._waiting)

    def _stop_listening(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.remove_reader(self._fd)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
