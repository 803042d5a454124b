"""One connection for all short commands of a process: what is asked meanwhile goes out together, and nobody waits for a
connection of their own."""

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import hiredis
import structlog
from redis.exceptions import ConnectionError as LineBroken
from redis.exceptions import RedisError, ResponseError

from shared.adapters.redis.connection import Redis
from shared.adapters.redis.lines import Command, Line
from shared.errors import TryLater

log = structlog.get_logger(__name__)

AWAY = "Redis can't be reached"
COME_AGAIN = 0.5
HEARS_WITHIN = 0.1


class _Asked:
    """Commands of one caller, and the replies that have come. Who has given up waiting still gets theirs in order."""

    __slots__ = ("answered", "count", "replies", "sent_at")

    def __init__(self, count: int, answered: asyncio.Future[list[Any]], sent_at: float) -> None:
        self.count = count
        self.answered = answered
        self.sent_at = sent_at
        self.replies: list[Any] = []

    def fail(self, fault: Exception) -> None:
        """It is not known what became of them."""
        if not self.answered.done():
            self.answered.set_exception(fault)


class SharedLine:
    """Nothing that blocks may be asked here. ``close`` it at the end."""

    def __init__(self, client: Redis) -> None:
        self._pool: Any = client.connection_pool
        self._line: Any = None
        self._opening: asyncio.Task[None] | None = None
        self._hearing: asyncio.Task[None] | None = None
        self._asked: deque[_Asked] = deque()
        self._packed: list[bytes] = []
        self._heard_at = 0.0
        self._closed = False

    async def ask(self, commands: Sequence[Command], limit: timedelta) -> Sequence[Any]:
        """Send commands in one go; their replies in order, refusals (``redis.exceptions.ResponseError``) among them.

        Sent once more when the line breaks meanwhile. Raises ``TryLater``, after ``limit`` at the latest; then it is
        not known whether they were done.
        """
        if not commands:
            return []
        until = asyncio.get_running_loop().time() + limit.total_seconds()
        try:
            return await self._ask(commands, until)
        except LineBroken:
            pass
        try:
            return await self._ask(commands, until)
        except LineBroken as fault:
            raise TryLater(AWAY, after=COME_AGAIN) from fault

    async def _ask(self, commands: Sequence[Command], until: float) -> Sequence[Any]:
        loop = asyncio.get_running_loop()
        if self._line is None:
            await self._open(until - loop.time())
        asked = _Asked(len(commands), loop.create_future(), loop.time())
        if not self._packed:
            loop.call_soon(self._send)
        self._packed += [hiredis.pack_command(command) for command in commands]  # type: ignore[arg-type]
        self._asked.append(asked)
        timer = loop.call_at(until, self._give_up, asked)
        try:
            return await asked.answered
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Ask nothing more; who waits gets ``TryLater``."""
        self._closed = True
        for task in (self._opening, self._hearing):
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in (self._opening, self._hearing) if task), return_exceptions=True)

    async def _open(self, within: float) -> None:
        """Take up a line, if nobody does already. Raises ``TryLater``."""
        if self._closed:
            raise TryLater(AWAY, after=COME_AGAIN)
        if self._opening is None:
            self._opening = asyncio.create_task(self._take_up())
        await asyncio.wait({self._opening}, timeout=max(0.0, within))
        if self._line is None:
            raise TryLater(AWAY, after=COME_AGAIN)

    async def _take_up(self) -> None:
        try:
            line = await self._pool.get_connection()
        except (RedisError, OSError):
            return
        finally:
            self._opening = None
        self._line = line
        self._hearing = asyncio.create_task(self._hear(line))

    async def _hear(self, line: Line) -> None:
        ears = hiredis.Reader(encoding="utf-8", errors="replace", replyError=ResponseError)
        try:
            while True:
                for said in await line.hear(ears):
                    if not isinstance(said, hiredis.PushNotification):
                        self._take_reply(said)
                self._heard_at = asyncio.get_running_loop().time()
        except (RedisError, hiredis.HiredisError, OSError) as fault:
            log.warning("redis_line_lost", error=type(fault).__name__)
        finally:
            await self._drop(line)

    def _take_reply(self, said: Any) -> None:
        if not self._asked:
            raise LineBroken("the server says what nobody asked")
        first = self._asked[0]
        first.replies.append(said)
        if len(first.replies) == first.count:
            self._asked.popleft()
            if not first.answered.done():
                first.answered.set_result(first.replies)

    def _send(self) -> None:
        packed, self._packed = self._packed, []
        if self._line is not None and packed:
            try:
                self._line.say_packed(b"".join(packed))
            except RedisError:
                return  # whoever hears it breaks with it, and so do all who wait

    def _give_up(self, asked: _Asked) -> None:
        asked.fail(TryLater(AWAY, after=COME_AGAIN))
        # A process that was held up itself finds the time over before it has heard what has come meanwhile.
        asyncio.get_running_loop().call_later(HEARS_WITHIN, self._judge, self._line, asked.sent_at)

    def _judge(self, line: Any, sent_at: float) -> None:
        if line is not None and line is self._line and self._heard_at <= sent_at and self._hearing is not None:
            self._hearing.cancel()  # nothing came since: the next one is asked on a new line

    async def _drop(self, line: Any) -> None:
        if self._line is line:
            self._line = self._hearing = None
            lost, self._asked, self._packed = self._asked, deque(), []
            for asked in lost:
                asked.fail(LineBroken("the line was lost"))
        await line.disconnect(nowait=True)
        await self._pool.release(line)
