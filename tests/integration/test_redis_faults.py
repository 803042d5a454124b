"""What the bus over Redis does when Redis does not do what it should."""

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest
import uvloop
from redis.asyncio import Redis

from shared.adapters.redis.announcements import RedisAnnouncements
from shared.adapters.redis.bulletin import RedisBulletin
from shared.adapters.redis.connection import open_redis
from shared.adapters.redis.control import RedisControl
from shared.adapters.redis.run_streams import RedisRunStreams
from shared.adapters.redis.wake_ups import RedisWakeUps
from shared.errors import TryLater
from shared.ids import new_id
from shared.messages import routes
from shared.messages.run_events import RunEvent, terminal_id
from shared.ports.bus import Batch, WakeUp
from shared.ports.control import Command
from shared.ports.runs import FinishedRun

HOUR = timedelta(hours=1)


@pytest.fixture
async def nobody() -> AsyncIterator[Redis]:
    """A client whose server is not there."""
    async with open_redis("redis://127.0.0.1:1/0") as client:
        yield client


async def test_a_redis_that_is_away_is_named_within_its_time(nobody: Redis) -> None:
    """Accepting a message waits 200 ms for Redis and no longer."""
    wake_ups = RedisWakeUps(nobody, consumer="me", stream_ttl=HOUR)
    bulletin = RedisBulletin(nobody, stream_ttl=HOUR, result_ttl=HOUR)
    streams = RedisRunStreams(nobody)
    started = time.monotonic()
    with pytest.raises(TryLater):
        await wake_ups.wake([WakeUp("a")])
    assert time.monotonic() - started < 1
    for asking in (
        wake_ups.take(limit=1, wait=timedelta(seconds=1)),
        wake_ups.reclaim(idle=timedelta(0), limit=1),
        bulletin.publish(Batch(wake=[WakeUp("a")])),
        streams.read(new_id(), after="0-0"),
        streams.results([new_id()]),
    ):
        with pytest.raises(TryLater):
            await asking


@contextlib.contextmanager
def slammed_doors() -> Iterator[int]:
    """A port where every line is reset as soon as it stands, as that of a server that is just ending."""

    def slam() -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = door.accept()
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                line.close()

    with socket.create_server(("127.0.0.1", 0)) as door:
        slamming = threading.Thread(target=slam, daemon=True)
        slamming.start()
        yield door.getsockname()[1]
        door.shutdown(socket.SHUT_RDWR)
        slamming.join(5)


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_a_line_that_is_closed_before_its_first_word_is_a_redis_that_is_away(scheme: str) -> None:
    """The event loop of the services calls that a RuntimeError, and every process would end by it."""

    async def ask(port: int) -> None:
        async with open_redis(f"{scheme}://:secret@127.0.0.1:{port}/0") as client:
            wake_ups = RedisWakeUps(client, consumer="me", stream_ttl=HOUR)
            for _ in range(400):  # one in three to one in twenty comes at that moment
                with pytest.raises(TryLater):
                    await wake_ups.take(limit=1, wait=timedelta(seconds=1))

    with slammed_doors() as port, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(ask(port))


async def test_a_wake_up_that_redis_refuses_is_not_taken_for_told(redis_client: Redis) -> None:
    """A full Redis answers with an error for each entry; the caller must know that nobody was woken."""
    await redis_client.set(routes.INBOUND, "no stream")
    wake_ups = RedisWakeUps(redis_client, consumer="me", stream_ttl=HOUR)
    with pytest.raises(TryLater):
        await wake_ups.wake([WakeUp("a", new_id())])
    with pytest.raises(TryLater):
        await RedisBulletin(redis_client, stream_ttl=HOUR, result_ttl=HOUR).publish(Batch(wake=[WakeUp("a")]))


async def test_what_redis_refuses_to_show_is_not_taken_for_nothing(redis_client: Redis) -> None:
    """Who stands back would leave everything to others for good, and nobody would hear of it."""
    wake_ups = RedisWakeUps(redis_client, consumer="me", stream_ttl=HOUR)
    assert await wake_ups.take_left(mark="", limit=1) == ([], "")
    await redis_client.set(routes.INBOUND, "no stream")
    with pytest.raises(TryLater):
        await wake_ups.take_left(mark="", limit=1)


async def test_streams_and_futures_do_not_stay_for_ever(redis_client: Redis) -> None:
    """Redis is a projection; its memory is flat."""
    bulletin = RedisBulletin(redis_client, stream_ttl=timedelta(minutes=7), result_ttl=timedelta(minutes=9))
    wake_ups = RedisWakeUps(redis_client, consumer="me", stream_ttl=timedelta(minutes=5))
    run, accepted = new_id(), new_id()
    finished = FinishedRun(new_id(), "cli", terminal_id(1), {"state": "done"})
    await wake_ups.wake([WakeUp("cli", accepted)])
    await bulletin.publish(
        Batch(
            events=[(run, RunEvent("1-1", "notice", {}))],
            finished=[finished],
            monitor={"c": {"a": "b"}},
            owners={"c": "w"},
        )
    )

    assert 290 < await redis_client.ttl(routes.run_events(accepted)) <= 300
    assert 410 < await redis_client.ttl(routes.run_events(run)) <= 420
    assert 410 < await redis_client.ttl(routes.run_events(finished.run)) <= 420
    assert 530 < await redis_client.ttl(routes.run_result(finished.run)) <= 540
    assert await redis_client.ttl(routes.monitor_session("c")) > 0
    assert await redis_client.ttl(routes.owner("c")) > 0


async def test_who_listens_is_told_again_after_the_line_broke(redis_client: Redis, redis_url: str) -> None:
    """Restarts of Redis are ordinary; nobody who waits may hang on a dead subscription."""
    announcements = RedisAnnouncements(redis_client)
    bulletin = RedisBulletin(redis_client, stream_ttl=HOUR, result_ttl=HOUR)
    listening = asyncio.create_task(announcements.listen())
    run = new_id()
    with announcements.follow(run) as nudge:
        await asyncio.wait_for(nudge.wait(), 5)
        async with open_redis(redis_url) as operator:
            await operator.client_kill_filter(_type="pubsub")
        heard = announcements.finished()
        told = asyncio.ensure_future(anext(heard))
        async with asyncio.timeout(10):
            while not told.done():
                nudge.clear()
                finished = FinishedRun(run, "cli", terminal_id(1), {"state": "done"})
                await bulletin.publish(Batch(finished=[finished]))
                await asyncio.sleep(0.05)
            assert told.result() == run
            await nudge.wait()
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


async def test_whoever_follows_while_the_subscription_is_being_made_is_heard(redis_client: Redis) -> None:
    """The line comes up in many small steps; a follower may come in between any two of them."""
    bulletin = RedisBulletin(redis_client, stream_ttl=HOUR, result_ttl=HOUR)
    for turns in range(12):
        announcements = RedisAnnouncements(redis_client)
        listening = asyncio.create_task(announcements.listen())
        for _ in range(turns):
            await asyncio.sleep(0)
        run = new_id()
        with announcements.follow(run) as nudge:
            async with asyncio.timeout(20):
                while (await redis_client.pubsub_numsub(routes.run_channel(run)))[0][1] == 0:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.01)
            nudge.clear()
            await bulletin.publish(Batch(events=[(run, RunEvent("1-1", "notice", {}))]))
            await asyncio.wait_for(nudge.wait(), 20)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)


async def test_who_is_cancelled_while_it_sends_is_cancelled(redis_url: str) -> None:
    """Else a process that was told to stop hears on for ever: the client's own wait swallows such a cancel."""
    async with open_redis(redis_url) as client:
        control = RedisControl(client)
        for turns in range(30):
            heard = asyncio.Event()
            hearing = asyncio.create_task(_hear_one(control, heard))
            async with asyncio.timeout(20):
                while not heard.is_set():  # what is told before somebody hears is heard by nobody
                    await control.tell(Command("cancel", new_id(), "c", "r"))
                    await asyncio.sleep(0.05)
            for _ in range(turns % 5):
                await asyncio.sleep(0)
            hearing.cancel()
            over, _ = await asyncio.wait({hearing}, timeout=3)
            assert over


async def _hear_one(control: RedisControl, heard: asyncio.Event) -> None:
    async for _ in control.hear():
        heard.set()


async def test_a_line_of_announcements_that_is_refused_or_broken_is_taken_up_again(
    redis_client: Redis, redis_url: str
) -> None:
    """Whoever has no right to hear, or whose line was cut, tries again; the process does not end by it."""
    admin: Any = redis_client
    await admin.execute_command("ACL", "SETUSER", "deaf", "on", "nopass", "+@all", "~*", "resetchannels")
    address = f"redis://deaf:any@{redis_url.rpartition('@')[2].removeprefix('redis://')}"
    try:
        async with open_redis(address) as client:
            announcements = RedisAnnouncements(client)
            listening = asyncio.create_task(announcements.listen())
            with announcements.follow(new_id()) as nudge:
                await asyncio.sleep(0.3)
                assert not nudge.is_set()
                await admin.execute_command("ACL", "SETUSER", "deaf", "allchannels")
                for _ in range(2):
                    async with asyncio.timeout(20):
                        await nudge.wait()
                    nudge.clear()
                    await redis_client.client_kill_filter(_type="pubsub")
                async with asyncio.timeout(20):
                    await nudge.wait()
            assert not listening.done()
            listening.cancel()
    finally:
        await admin.execute_command("ACL", "DELUSER", "deaf")
