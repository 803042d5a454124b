"""Connections to Redis that pack in C and send a whole pipeline at once."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import hiredis
import redis.asyncio
from redis.exceptions import ConnectionError as LineBroken
from redis.exceptions import DataError
from redis.exceptions import TimeoutError as NoAnswer

Command = tuple[str | bytes | int | float, ...]
"""One command as it goes out, its name first."""

_pack: Callable[[tuple[Any, ...]], bytes] = hiredis.pack_command

_HEARD_AT_ONCE = 65_536


class Line:
    """Part of a connection: does what the client does in Python for each argument at once, and keeps two surprises of
    the client from its callers.

    A line that was closed before its first word is a fault of Redis, as all others are; the event loop says so with a
    ``RuntimeError``, which the client passes on and nobody expects. And who is cancelled while it sends is cancelled:
    ``asyncio.wait_for`` of Python 3.11, which the client uses there, swallows a cancel that meets the end of its wait.
    """

    async def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """Send all, and return the replies in their order, refusals among them. The caller bounds the wait.

        Raises ``redis.exceptions.ConnectionError``. Whoever is stopped in between leaves no line behind on which
        replies of others would come.
        """
        packed = b"".join(map(_pack, commands))
        await self._open()
        try:
            with _closed_is_broken():
                self._writer.write(packed)  # type: ignore[attr-defined]
                await self._writer.drain()  # type: ignore[attr-defined]
                parser = self._parser  # type: ignore[attr-defined]
                return [await parser.read_response() for _ in commands]
        except BaseException:
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise

    def say(self, command: Command) -> None:
        """Send one command whose reply is heard. Raises ``redis.exceptions.ConnectionError`` when the line is gone."""
        self.say_packed(hiredis.pack_command(command))  # type: ignore[arg-type]  # it takes any number of words

    def say_packed(self, packed: bytes) -> None:
        """The same for commands that are packed already."""
        with _closed_is_broken():
            if self._writer is None:  # type: ignore[attr-defined]
                raise LineBroken("the line was closed")
            self._writer.write(packed)  # type: ignore[attr-defined]

    async def hear(self, ears: hiredis.Reader) -> list[Any]:
        """Whatever comes next on a line that listens, several things at once if they are there, in their order.

        ``ears`` belong to this line from its first word on. Raises ``redis.exceptions.ConnectionError``.
        """
        with _closed_is_broken():
            data = await self._reader.read(_HEARD_AT_ONCE)  # type: ignore[attr-defined]
        if not data:
            raise LineBroken("the line was closed")
        ears.feed(data)
        heard: list[Any] = []
        while (said := ears.gets()) is not False:
            heard.append(said)
        return heard

    async def send_packed_command(
        self,
        command: bytes | str | Iterable[bytes],
        check_health: bool = True,  # noqa: FBT001, FBT002 - the client's own signature
    ) -> None:
        """See the client."""
        await self._open()
        if check_health:
            await self.check_health()  # type: ignore[attr-defined]
        if isinstance(command, str):
            command = command.encode()
        packed = command if isinstance(command, bytes) else b"".join(command)
        try:
            with _closed_is_broken():
                self._writer.write(packed)  # type: ignore[attr-defined]
                async with asyncio.timeout(self.socket_timeout):  # type: ignore[attr-defined]
                    await self._writer.drain()  # type: ignore[attr-defined]
        except TimeoutError as fault:
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise NoAnswer("Timeout writing to socket") from fault
        except BaseException:
            await self.disconnect(nowait=True)  # type: ignore[attr-defined]
            raise

    def pack_command(self, *words: Any) -> list[bytes]:
        """See the client."""
        name = words[0] if isinstance(words[0], bytes) else str(words[0]).encode()
        plain = [bytes(word) if isinstance(word, bytearray | memoryview) else word for word in words[1:]]
        try:
            return [_pack((*name.split(), *plain))]
        except TypeError as fault:
            raise DataError(str(fault)) from fault

    def pack_commands(self, commands: Iterable[Iterable[Any]]) -> list[bytes]:
        """See the client."""
        return [packed for words in commands for packed in self.pack_command(*words)]

    async def _open(self) -> None:
        if not self.is_connected:  # type: ignore[attr-defined]
            with _closed_is_broken():
                await self.connect_check_health(check_health=False)  # type: ignore[attr-defined]


@contextmanager
def _closed_is_broken() -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise
    except OSError as fault:
        raise LineBroken(f"Error while talking to Redis: {fault}") from fault
    except RuntimeError as fault:
        if "closed" not in str(fault):
            raise
        raise LineBroken("the line was closed") from fault


class TcpLine(Line, redis.asyncio.Connection):
    """Without a cover."""


class TlsLine(Line, redis.asyncio.SSLConnection):
    """Over TLS."""


class SocketLine(Line, redis.asyncio.UnixDomainSocketConnection):
    """Over a socket of this machine."""


LINES: dict[str, type[redis.asyncio.Connection]] = {"rediss": TlsLine, "unix": SocketLine}  # type: ignore[dict-item]
"""By the scheme of an address; ``TcpLine`` for the rest."""
