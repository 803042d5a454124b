"""The scheduler fires what is due: real processes, and each time exactly one run."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest
from redis.asyncio import Redis

from services.scheduler.actions.fire_due import Firing, fire_due
from services.scheduler.rules.firing import MOST_TRIES, Manner
from shared.actions.keep_door import Bounds, Doorkeeper
from shared.adapters.postgres.inbox import PostgresInbox
from shared.adapters.postgres.outbox import PostgresOutbox
from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.schedules import PostgresSchedules
from shared.adapters.redis.wake_ups import RedisWakeUps
from shared.adapters.system_clock import SystemClock
from shared.ports.records import Whose
from tests.bus_worlds import HOUR
from tests.deliveries_worlds import PostgresDeliveriesWorld
from tests.fake_bot_api import TOKEN, fake_bot_api
from tests.integration.services.service_process import Surroundings, started, until

CONVERSATION = """
insert into conversations (key, channel, principal, contact) values (%s, 'http', 'key:ann', 'Ann')
on conflict do nothing
"""
DUE = """
insert into schedules (conversation, principal, sender, contact, kind, text, due_at, look_at, made_by)
values (%s, 'key:ann', 'ann', 'Ann', %s, %s, now() - %s, now() - %s, gen_random_uuid()::text) returning id
"""
RUNS = """
select s.state, s.run = r.id, r.message ->> 'text', r.source, r.tier, r.sender, r.principal, r.conversation
from schedules s left join runs r on r.id = s.run order by s.id
"""
HOLD = """
create function hold_on() returns trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock(4711);
  return new;
end $$
"""
HELD = """
create trigger hold_on before update on schedules for each row when (new.state = 'fired') execute function hold_on()
"""
ENDS = """
select count(pg_terminate_backend(pid)) from pg_stat_activity
where application_name = 'lucyd scheduler' and datname = current_database()
"""
NO_TIME = timedelta(0)


async def due(database: Database, text: str = "tea", kind: str = "reminder", *, conversation: str = "http:ann:x",
              since: timedelta = NO_TIME) -> int:  # fmt: skip
    """The number of one that is due."""
    await database.rows(CONVERSATION, (conversation,))
    return int(await database.value(DUE, (conversation, kind, text, since, since)))


async def runs(database: Database) -> int:
    return int(await database.value("select count(*) from runs"))


def all_fired(database: Database, number: int) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return bool(await database.value("select count(*) = %s from schedules where state = 'fired'", (number,)))

    return holds


async def test_what_is_due_becomes_a_run_in_its_conversation(surroundings: Surroundings, database: Database) -> None:
    """Within a second or two, as a message of the house; it also wakes a worker."""
    async with started("scheduler", surroundings) as scheduler:
        await scheduler.ready()
        await due(database, "tea")
        await due(database, "water the plants", "task", conversation="http:ann:y")
        await until(all_fired(database, 2), 20, scheduler.said)
        (reminder, task) = await database.rows(RUNS)
        assert reminder[2].startswith("[Reminder] tea\n[It is ")
        assert task[2].startswith("[Scheduled task] water the plants\n")
        assert reminder[:2] + reminder[3:] == ("fired", True, "system", "operational", "ann", "key:ann", "http:ann:x")
        assert "late" not in reminder[2]
        woken: Any = await surroundings.client.xrange("lucyd:inbound")
        assert {entry["conversation"] for _, entry in woken} == {"http:ann:x", "http:ann:y"}
        assert await scheduler.stop() == 0
    assert await runs(database) == 2


async def test_a_scheduler_killed_between_accept_and_mark_fires_once(
    surroundings: Surroundings, database: Database, database_url: str
) -> None:
    """The run is there and the timer does not know it yet: the heir finds it by its key, and makes no second one."""
    await database.rows(HOLD)
    await database.rows(HELD)
    id = await due(database)
    with psycopg.connect(database_url, autocommit=True) as holder:
        holder.execute("select pg_advisory_lock(4711)")
        async with started("scheduler", surroundings) as scheduler:

            async def accepted() -> bool:
                return await runs(database) == 1

            await until(accepted, 40, scheduler.said)
            assert await database.value("select state from schedules where id = %s", (id,)) == "pending"
            scheduler.process.kill()
            await scheduler.process.wait()
        await database.rows(ENDS)
    assert await database.value("select state from schedules where id = %s", (id,)) == "pending"
    async with started("scheduler", surroundings) as heir:
        await until(all_fired(database, 1), 40, heir.said)
        assert await heir.stop() == 0
    ((_, same, *_),) = await database.rows(RUNS)
    assert same is True
    assert await runs(database) == 1
    keys = await database.rows("select scope, split_part(key, ':', 1) from idempotency")
    assert keys == [("schedule", str(id))]


async def test_however_often_the_leader_is_killed_each_fires_once(
    surroundings: Surroundings, database: Database
) -> None:
    """Between any two of its steps, as it happens: what was begun is gone on with, and nothing is begun twice."""
    number = 600
    for each in range(number):
        await due(database, f"n{each}", conversation=f"http:ann:{each % 40}")
    for least in (1, 200, 400):
        async with started("scheduler", surroundings) as scheduler:

            async def enough(least: int = least) -> bool:
                return await runs(database) >= least

            await until(enough, 40, scheduler.said)
            scheduler.process.kill()
            await scheduler.process.wait()
    async with started("scheduler", surroundings) as heir:
        await until(all_fired(database, number), 60, heir.said)
        assert await heir.stop() == 0
    assert await runs(database) == number
    same = "select count(*) from schedules s join runs r on r.id = s.run and r.conversation = s.conversation"
    assert await database.value(same) == number


async def test_what_fell_due_while_nobody_led_comes_once_and_says_how_late(
    surroundings: Surroundings, database: Database
) -> None:
    """Also when several schedulers start at the same moment."""
    for number in range(120):
        await due(database, f"n{number}", conversation=f"http:ann:{number % 7}", since=timedelta(hours=3))
    async with started("scheduler", surroundings) as one, started("scheduler", surroundings) as other:
        await until(all_fired(database, 120), 60, one.said)
        assert [await one.stop(), await other.stop()] == [0, 0]
    texts = [row[2] for row in await database.rows(RUNS)]
    assert all("and comes 3 h 0 min late.]" in text for text in texts)
    assert await runs(database) == 120
    in_line = "select (message ->> 'text') from runs where conversation = 'http:ann:3' order by ordinal"
    order = [int(row[0].split("\n")[0].removeprefix("[Reminder] n")) for row in await database.rows(in_line)]
    assert order == sorted(order)


@pytest.fixture
def firing(database: Database, redis_client: Redis) -> Callable[..., Firing]:
    """What the scheduler's wiring makes, with other bounds."""

    def make(*, capacity: int = 1000, bounds: Bounds | None = None) -> Firing:
        clock = SystemClock()
        return Firing(
            PostgresSchedules(database),
            Doorkeeper(PostgresInbox(database), clock, bounds or Bounds()),
            PostgresOutbox(database),
            RedisWakeUps(redis_client, consumer="test", stream_ttl=HOUR),
            clock,
            Manner(ZoneInfo("UTC"), timedelta(hours=1), capacity),
        )

    return make


async def states(database: Database) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await database.rows("select state, tries, reason from schedules order by id")]


async def test_a_full_conversation_holds_up_nobody_else(database: Database, firing: Callable[..., Firing]) -> None:
    """It is tried again later, with growing waits, and can be seen to be late; what others have scheduled comes."""
    await due(database, "first")
    await due(database, "second")
    await due(database, "elsewhere", conversation="http:ann:y")
    full = "too many messages wait in this conversation"
    assert await fire_due(firing(capacity=1)) == 2
    assert await states(database) == [("fired", 0, None), ("pending", 1, full), ("fired", 0, None)]
    assert await fire_due(firing(capacity=1)) == 0  # not at once
    again_in = await database.value("select extract(epoch from look_at - now()) from schedules where tries = 1")
    assert 3 < again_in <= 5
    await database.rows("update runs set state = 'done', finished_at = now()")
    await database.rows("update schedules set look_at = now() where state = 'pending'")
    assert await fire_due(firing(capacity=1)) == 1
    assert await runs(database) == 3


async def test_the_limits_of_open_runs_hold_for_timers_too(database: Database, firing: Callable[..., Firing]) -> None:
    """A principal at its limit gets its reminder when there is room again, and not instead of somebody's message."""
    await due(database, "first")
    assert await fire_due(firing(bounds=Bounds(of_one=1))) == 1
    await due(database, "second", conversation="http:ann:y")
    assert await fire_due(firing(bounds=Bounds(of_one=1))) == 0
    assert (await states(database))[1] == ("pending", 1, "too many of your messages wait to be answered")


async def test_a_key_that_is_taken_by_something_else_fails_it_with_a_reason(
    database: Database, firing: Callable[..., Firing]
) -> None:
    """No retry can help; it is there to be seen, and the next one comes."""
    id = await due(database)
    other = await due(database, conversation="http:ann:y")
    key = await database.value("select due_at from schedules where id = %s", (id,))
    await database.rows(
        "insert into idempotency (scope, key, body_hash, run, expires_at)"
        " values ('schedule', %s, 'another', gen_random_uuid(), now() + interval '1 day')",
        (f"{id}:{key.isoformat()}",),
    )
    assert await fire_due(firing()) == 1
    assert await states(database) == [
        ("failed", 0, "this idempotency key was used with another body"),
        ("fired", 0, None),
    ]
    assert await database.value("select payload ->> 'reason' from events where type = 'schedule_failed'")
    assert await database.value("select state from schedules where id = %s", (other,)) == "fired"


async def test_after_a_day_of_tries_it_is_given_up_with_its_reason(
    database: Database, firing: Callable[..., Firing]
) -> None:
    """A queue of what can never be accepted would grow for ever."""
    await due(database)
    await database.rows("update schedules set tries = %s", (MOST_TRIES,))
    assert await fire_due(firing(bounds=Bounds(of_one=1, of_all=1))) == 1  # there is room
    await due(database)
    await database.rows("update schedules set tries = %s where state = 'pending'", (MOST_TRIES,))
    assert await fire_due(firing(bounds=Bounds(of_one=1))) == 0
    state, _, reason = (await states(database))[1]
    assert state == "failed"
    assert reason == f"given up after {MOST_TRIES} tries: too many of your messages wait to be answered"


async def test_a_locked_conversation_holds_up_nobody_else(
    database: Database, database_url: str, firing: Callable[..., Firing]
) -> None:
    """Its own is tried again as the same run: whether it was accepted is not known."""
    locked, free = await due(database), await due(database, conversation="http:ann:y")
    async with await psycopg.AsyncConnection.connect(database_url) as holder:
        await holder.execute("select 1 from conversations where key = 'http:ann:x' for update")
        assert await fire_due(firing()) == 1
        assert [row[:2] for row in await states(database)] == [("pending", 1), ("fired", 0)]
    run = await database.value("select run from schedules where id = %s", (locked,))
    await database.rows("update schedules set look_at = now() where id = %s", (locked,))
    assert await fire_due(firing()) == 1
    assert await database.value("select run from schedules where id = %s", (locked,)) == run
    assert await runs(database) == 2
    assert free != locked


MESSAGE = """
insert into schedules (conversation, principal, sender, contact, kind, target, place, text, due_at, look_at, made_by)
values ('http:ann:x', %s, 'ann', 'Ann', 'message', 'Bob', 'telegram:7', %s, now() - %s, now(), %s) returning id
"""
BOB = """
insert into conversations (key, channel, principal, contact)
values ('telegram:7', 'telegram', 'person:telegram:7', 'Bob')
"""
OUT = """
select r.id = s.run, r.kind, r.state, r.conversation, r.principal, r.message ->> 'text'
from runs r left join schedules s on s.run = r.id order by r.ordinal
"""


async def message(database: Database, text: str, since: timedelta = NO_TIME, *, principal: str = "key:default") -> int:
    """The number of a message to Bob that is due."""
    await database.rows(CONVERSATION, ("http:ann:x",))
    return int(await database.value(MESSAGE, (principal, text, since, text)))


async def a_bridge(database: Database) -> None:
    """One that lives and leads, and from whom Bob has been heard."""
    await database.rows(BOB)
    world = PostgresDeliveriesWorld(database)
    assert await world.deliveries.lead(await world.hire()) is not None


async def test_a_message_becomes_a_run_in_its_receivers_line_and_once(
    database: Database, firing: Callable[..., Firing]
) -> None:
    """Also when nobody could note that it has: the heir finds the same run, though the bridge is gone by then."""
    await a_bridge(database)
    id = await message(database, "see you at noon")
    (taken,) = await PostgresSchedules(database).take(limit=1)
    assert await fire_due(firing()) == 1
    assert await states(database) == [("fired", 0, None)]
    await database.rows(
        "update schedules set state = 'pending', ended_at = null, run = %s where id = %s", (taken.run, id)
    )
    await database.rows("delete from channel_leaders")
    assert await fire_due(firing()) == 1
    assert await database.rows(OUT) == [
        (True, "outbound", "accepted", "telegram:7", "person:telegram:7", "see you at noon")
    ]


async def test_a_message_that_is_late_says_so_at_its_end(database: Database, firing: Callable[..., Firing]) -> None:
    """Its reader has to know what noon is meant."""
    await a_bridge(database)
    await message(database, "see you at noon", timedelta(hours=1))
    await fire_due(firing())
    ((*_, text),) = await database.rows(OUT)
    assert text.startswith("see you at noon\n(This was due at ")
    assert text.endswith("and comes 1 h 0 min late.)")


async def test_without_a_bridge_a_message_waits_and_can_be_cancelled(
    database: Database, firing: Callable[..., Firing]
) -> None:
    """Nothing of it stands anywhere else."""
    await database.rows(BOB)
    id = await message(database, "hello")
    assert await fire_due(firing()) == 0
    assert await states(database) == [("pending", 1, "no bridge of this channel is running; nothing was sent")]
    assert await runs(database) == 0
    assert await PostgresSchedules(database).cancel(id, Whose("key:default")) == "cancelled"


async def test_a_chat_that_nobody_has_begun_gets_nothing(database: Database, firing: Callable[..., Firing]) -> None:
    """A bot may not write first; that is a reason, and no wait helps."""
    await message(database, "hello")
    assert await fire_due(firing()) == 0
    assert await states(database) == [
        ("failed", 0, "nobody has written from that chat yet, so nothing can be sent there")
    ]


async def test_a_named_key_reaches_nobody_but_its_own_people(database: Database, firing: Callable[..., Firing]) -> None:
    """Also one that was scheduled when that was not looked at: what a key may do is asked where it is done."""
    await a_bridge(database)
    await message(database, "hello", principal="key:ann")
    await message(database, "hello too", principal="person:telegram:8")
    assert await fire_due(firing()) == 1
    assert [row[0] for row in await states(database)] == ["failed", "fired"]
    assert [row[-1] for row in await database.rows(OUT)] == ["hello too"]


async def test_a_message_reaches_its_person_over_the_bridge_once_though_both_are_killed(
    surroundings: Surroundings, database: Database
) -> None:
    """What Bob reads, he reads once, and it stands in his session: made before the crash of the scheduler, said and
    sent after the start of worker and bridge."""
    await a_bridge(database)  # counts as living until its beat is missed, so that the message is accepted
    await message(database, "see you at noon")
    async with started("scheduler", surroundings) as scheduler:
        await until(all_fired(database, 1), 40, scheduler.said)
        scheduler.process.kill()
        await scheduler.process.wait()
    async with fake_bot_api() as telegram:
        where = {"LUCYD_TELEGRAM_TOKEN": TOKEN, "LUCYD_TELEGRAM_API_URL": telegram.url}
        async with (
            started("scheduler", surroundings) as heir,
            started("agent_worker", surroundings),
            started("telegram_bridge", surroundings, **where),
        ):
            await heir.ready()
            await telegram.until(lambda: telegram.said_to(7) == ["see you at noon"], 60)
            await until(all_fired(database, 1), 20, heir.said)
        assert telegram.said_to(7) == ["see you at noon"]
    assert await database.rows("select role, body ->> 'text' from messages") == [("assistant", "see you at noon")]
