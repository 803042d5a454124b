"""One pub/sub connection for a whole process: who waits for a run is told when there is something to read."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Iterator
from uuid import UUID

import structlog
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from shared.adapters.redis.connection import Redis
from shared.messages import routes

log = structlog.get_logger(__name__)

LISTEN_FOR = 1.0
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
BACKLOG = 100_000


class RedisAnnouncements:
    """``Announcements`` of the ports. ``listen`` must run for as long as anybody waits."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._followers: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._finished: asyncio.Queue[UUID] = asyncio.Queue(BACKLOG)
        self._pubsub: PubSub | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        """Hear and pass on, over reconnects, until cancelled."""
        pause = FIRST_PAUSE
        while True:
            try:
                async with self._client.pubsub() as pubsub:
                    asked = set(self._followers)
                    await pubsub.subscribe(routes.FINISHED, *asked)
                    self._pubsub = pubsub
                    if meanwhile := self._followers.keys() - asked:
                        await pubsub.subscribe(*meanwhile)
                    pause = FIRST_PAUSE
                    while True:
                        message = await pubsub.get_message(timeout=LISTEN_FOR)
                        if message is not None:
                            self._hear(message["type"], message["channel"], message["data"])
            except (RedisError, OSError) as fault:
                log.warning("announcements_lost", error=type(fault).__name__)
            finally:
                self._pubsub = None
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

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
            self._subscribe(channel)
        try:
            yield nudge
        finally:
            followers.discard(nudge)
            if not followers:
                del self._followers[channel]
                self._unsubscribe(channel)

    def _hear(self, kind: str, channel: str, data: str) -> None:
        """A message; or the server's word that a subscription stands now, after which nothing is missed any more.

        Only then is it time to look for what was said before: a subscription that was merely sent can be overtaken.
        """
        if kind in {"message", "subscribe"} and channel != routes.FINISHED:
            for nudge in self._followers.get(channel, ()):
                nudge.set()
        elif kind == "message":
            with contextlib.suppress(ValueError, asyncio.QueueFull):  # a lost word is healed by looking again
                self._finished.put_nowait(UUID(data))

    def _subscribe(self, channel: str) -> None:
        if self._pubsub is not None:
            self._background(self._pubsub.subscribe(channel))

    def _unsubscribe(self, channel: str) -> None:
        if self._pubsub is not None:
            self._background(self._pubsub.unsubscribe(channel))

    def _background(self, command: Awaitable[object]) -> None:
        async def send() -> None:
            # A broken line is the listener's, who subscribes to everything anew.
            with contextlib.suppress(RedisError, OSError):
                await command

        task = asyncio.get_running_loop().create_task(send())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
