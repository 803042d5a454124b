"""One pub/sub connection for a whole process: who waits for a run is told when there is something to read."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import UUID

import hiredis
import structlog
from redis.exceptions import RedisError

from shared.adapters.redis.connection import Redis
from shared.adapters.redis.lines import Line
from shared.messages import routes

log = structlog.get_logger(__name__)

ASK_EVERY = 5.0
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
BACKLOG = 100_000


class RedisAnnouncements:
    """``Announcements`` of the ports. ``listen`` must run for as long as anybody waits."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._followers: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._finished: asyncio.Queue[UUID] = asyncio.Queue(BACKLOG)
        self._line: Line | None = None
        self._changed: set[str] = set()
        self._heard_at = 0.0

    async def listen(self) -> None:
        """Hear and pass on, over reconnects, until cancelled."""
        pool: Any = self._client.connection_pool
        pause = FIRST_PAUSE
        while True:
            line: Any = None
            try:
                line = await pool.get_connection()
                asking = asyncio.create_task(self._ask_whether_it_stands(line))
                try:
                    await self._hear_all(line)
                finally:
                    asking.cancel()
            except (RedisError, hiredis.HiredisError, OSError) as fault:
                log.warning("announcements_lost", error=type(fault).__name__)
                if line is not None and self._heard_at > 0:
                    pause = FIRST_PAUSE
            finally:
                self._line, self._heard_at = None, 0.0
                if line is not None:
                    await line.disconnect(nowait=True)
                    await pool.release(line)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _hear_all(self, line: Line) -> None:
        ears = hiredis.Reader(encoding="utf-8", errors="replace")
        line.say(("SUBSCRIBE", routes.FINISHED, *self._followers))
        self._line = line
        while True:
            for said in await line.hear(ears):
                if isinstance(said, Exception):
                    raise said
                if isinstance(said, list) and len(said) == 3:
                    self._hear(*said)
            self._heard_at = asyncio.get_running_loop().time()

    async def _ask_whether_it_stands(self, line: Any) -> None:
        """A line that says nothing may be one that is gone: end it when it does not answer either."""
        asked_at = 0.0
        while True:
            await asyncio.sleep(ASK_EVERY)
            if asked_at > self._heard_at:
                await line.disconnect(nowait=True)
                return
            asked_at = asyncio.get_running_loop().time()
            with contextlib.suppress(RedisError):
                line.say(("PING",))

    async def finished(self) -> AsyncIterator[UUID]:
        """See ``Announcements.finished``."""
        while True:
            yield await self._finished.get()

    @contextlib.contextmanager
    def follow(self, run: UUID) -> Iterator[asyncio.Event]:
        """See ``Announcements.follow``."""
        channel = routes.run_channel(run)
        nudge = asyncio.Event()
        followers = self._followers[channel]
        followers.add(nudge)
        if len(followers) == 1:
            self._change(channel)
        try:
            yield nudge
        finally:
            followers.discard(nudge)
            if not followers:
                del self._followers[channel]
                self._change(channel)

    def _hear(self, kind: str, channel: str, data: Any) -> None:
        """A message; or the server's word that a subscription stands now, after which nothing is missed any more.

        Only then is it time to look for what was said before: a subscription that was merely sent can be overtaken.
        """
        if kind in {"message", "subscribe"} and channel != routes.FINISHED:
            for nudge in self._followers.get(channel, ()):
                nudge.set()
        elif kind == "message":
            with contextlib.suppress(ValueError, asyncio.QueueFull):  # a lost word is healed by looking again
                self._finished.put_nowait(UUID(data))

    def _change(self, channel: str) -> None:
        """What was changed in one turn of the event loop is told to Redis at once."""
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._tell_changes)
        self._changed.add(channel)

    def _tell_changes(self) -> None:
        changed, self._changed = self._changed, set()
        if self._line is None:
            return  # a new line begins with all of them
        # A broken line is the listener's, who subscribes to everything anew.
        with contextlib.suppress(RedisError):
            if begun := [channel for channel in changed if channel in self._followers]:
                self._line.say(("SUBSCRIBE", *begun))
            if ended := [channel for channel in changed if channel not in self._followers]:
                self._line.say(("UNSUBSCRIBE", *ended))
