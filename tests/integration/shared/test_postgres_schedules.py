"""Timers in a real Postgres: made, limited, seen, cancelled, taken, thrown away."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
import pytest

from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.schedules import PostgresSchedules
from shared.adapters.postgres.upkeep import PostgresUpkeep
from shared.domain.child_run import CHILD_CONVERSATIONS
from shared.domain.person import OWNER, Identity, People
from shared.domain.schedule import Schedule
from shared.ids import new_id
from shared.ports.records import Whose

ANN, BOB = Whose("key:ann"), Whose("key:bob")
OPERATOR = Whose("key:default", keyless=True)
CHAT = "person:telegram:1"
CONVERSATION = """
insert into conversations (key, channel, principal, contact) values (%s, %s, %s, 'Somebody') on conflict do nothing
"""
RUN = """
insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message, deadline_at)
values (%s, %s, 1, 'message', 'running', 'http', 'full', 'key:ann', 'x', '{}', now())
"""


def person(principal: str = "key:ann", sender: str = "x") -> Identity:
    """Who that is, by the rule."""
    return People().identity(principal=principal, sender=sender, conversation=f"http:{principal}:{sender}")


class House:
    """A database in which acts are carried out as the worker's transaction does it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.schedules = PostgresSchedules(database)
        self._calls = 0

    async def schedule(
        self, principal: str = "key:ann", *, sender: str = "x", most: int = 50, **arguments: Any
    ) -> dict[str, Any]:
        """One call of a tool."""
        self._calls += 1
        conversation = f"http:{principal}:{sender}"
        await self.database.rows(CONVERSATION, (conversation, "http", principal))
        context = {"key": f"{new_id()}:1:0", "conversation": conversation, "principal": principal, "sender": sender,
                   "contact": "Somebody"}  # fmt: skip
        whose = person(principal, sender)
        given = {"kind": "reminder", "text": "tea", "delay": 3600, "most": most, "told": "as told", **arguments,
                 "identity": whose.name, "person": whose.person}  # fmt: skip
        parameters = (orjson.dumps(context).decode(), orjson.dumps(given).decode())
        said: dict[str, Any] = await self.database.value("select lucyd_act_schedule(%s::jsonb, %s::jsonb)", parameters)
        return said

    async def make(self, principal: str = "key:ann", **arguments: Any) -> int:
        """The number of a new one."""
        text = (await self.schedule(principal, **arguments))["text"]
        assert text.endswith(": as told")
        return int(text.removeprefix("Scheduled sched-").partition(":")[0])

    async def due(self, principal: str = "key:ann", **arguments: Any) -> int:
        """One that is due already."""
        return await self.make(principal, due_at=(datetime.now(UTC) - timedelta(seconds=2)).isoformat(), **arguments)

    async def cancel(self, id: int, principal: str = "key:ann", sender: str = "x") -> dict[str, Any]:
        """One call of the tool that cancels."""
        whose = person(principal, sender)
        context = orjson.dumps({"principal": principal}).decode()
        given = orjson.dumps({"id": id, "identity": whose.name, "person": whose.person}).decode()
        said: dict[str, Any] = await self.database.value(
            "select lucyd_act_cancel_scheduled(%s::jsonb, %s::jsonb)", (context, given)
        )
        return said

    async def one(self, id: int) -> Schedule:
        """It, whosever it is."""
        whose = Whose(await self.database.value("select principal from schedules where id = %s", (id,)))
        return next(each for each in await self.schedules.listed(whose, state=None, limit=1000) if each.id == id)


@pytest.fixture
async def house(database: Database) -> House:
    return House(database)


async def test_what_is_made_is_there(house: House) -> None:
    """All of it, and pending."""
    id = await house.make(kind="message", text="hello", target="Bob", place="telegram:2", delay=60)
    made = await house.one(id)
    assert (made.name, made.kind, made.text, made.target, made.place) == (
        f"sched-{id}",
        "message",
        "hello",
        "Bob",
        "telegram:2",
    )
    assert (made.state, made.principal, made.conversation, made.channel) == (
        "pending",
        "key:ann",
        "http:key:ann:x",
        "http",
    )
    assert (made.sender, made.contact, made.run, made.tries) == ("x", "Somebody", None, 0)
    assert made.due_at - made.created_at == timedelta(seconds=60)


async def test_a_given_time_is_kept_to_the_second(house: House) -> None:
    """A reminder is for a time of the clock, and not for so many seconds from now."""
    at = datetime(2027, 3, 1, 8, 30, tzinfo=UTC)
    assert (await house.one(await house.make(due_at=at.isoformat()))).due_at == at


async def test_what_a_sub_agent_schedules_comes_to_whoever_it_works_for(house: House) -> None:
    """In its own conversation nobody listens."""
    await house.make()
    root, child, between = new_id(), new_id(), new_id()
    conversation = f"{CHILD_CONVERSATIONS}{between}:1:0"
    await house.database.rows(CONVERSATION, (conversation, "system", "key:ann"))
    for run, where in ((root, "http:key:ann:x"), (child, conversation)):
        await house.database.rows(RUN, (run, where))
    await house.database.rows(
        "insert into children (run, parent, root, step, call_index, most_characters) values (%s, %s, %s, 1, 0, 1000)",
        (child, between, root),
    )
    whose = {"principal": "key:ann", "sender": "subagent", "contact": "sub"}
    context = {"key": "k", "conversation": conversation, "run": str(child), **whose}
    given = {"kind": "reminder", "text": "by a child", "delay": 60, "most": 5, "told": "x"}
    parameters = (orjson.dumps(context).decode(), orjson.dumps(given).decode())
    await house.database.value("select lucyd_act_schedule(%s::jsonb, %s::jsonb)", parameters)
    made = (await house.schedules.listed(ANN, state=None, limit=1))[0]
    assert (made.text, made.conversation, made.sender, made.contact) == (
        "by a child",
        "http:key:ann:x",
        "x",
        "Somebody",
    )


async def test_calls_at_the_same_time_do_not_pass_the_limit_together(house: House) -> None:
    """A model may ask for twenty at once, and two conversations of one principal may."""
    said = await asyncio.gather(*(house.schedule(most=5) for _ in range(20)))
    assert sum("text" in each for each in said) == 5
    assert {each["error"] for each in said if "error" in each} == {
        "5 are scheduled already, and no more may be; cancel one first"
    }
    assert await house.database.value("select count(*) from schedules") == 5


async def test_each_has_a_limit_of_its_own_and_room_comes_back(house: House) -> None:
    """What one has scheduled takes nobody else's place; what was cancelled or has fired takes none."""
    id = await house.make(most=1)
    assert "error" in await house.schedule(most=1)
    assert "text" in await house.schedule("key:bob", most=1)
    await house.cancel(id)
    assert "text" in await house.schedule(most=1)
    assert await house.schedule(most=1) == {"error": "1 are scheduled already, and no more may be; cancel one first"}
    refused = await house.schedule(sender="y", most=1)  # who can't see it can't cancel it
    assert refused == {"error": "1 are scheduled already by others with the same key, and no more may be"}
    assert "error" in await house.schedule(most=0)


async def test_one_cancels_ones_own_and_nobody_elses(house: House) -> None:
    """Another principal does not even learn that it is there, nor does another sender of the same key."""
    id = await house.make()
    unknown = {"error": f"nothing of yours is scheduled as sched-{id}; list_scheduled shows what is"}
    assert await house.cancel(id, "key:bob") == unknown
    assert await house.cancel(id, sender="y") == unknown
    assert (await house.one(id)).state == "pending"
    for _ in range(2):
        assert await house.cancel(id) == {"text": f"Cancelled sched-{id}"}
    assert (await house.one(id)).state == "cancelled"


async def test_over_http_one_sees_and_cancels_ones_own(house: House) -> None:
    """The operator also what belongs to no key, and never what belongs to another's."""
    ann, bob, chat = await house.make("key:ann"), await house.make("key:bob"), await house.make(CHAT)

    async def seen(whose: Whose) -> list[int]:
        return [each.id for each in await house.schedules.listed(whose, state=None, limit=10)]

    assert (await seen(ANN), await seen(BOB), await seen(OPERATOR)) == ([ann], [bob], [chat])
    assert [await house.schedules.cancel(ann, BOB), await house.schedules.cancel(ann, OPERATOR)] == ["unknown"] * 2
    assert await house.schedules.cancel(10**17, ANN) == "unknown"
    assert [await house.schedules.cancel(ann, ANN) for _ in range(2)] == ["cancelled", "cancelled"]
    assert await house.schedules.cancel(chat, OPERATOR) == "cancelled"
    assert [each.id for each in await house.schedules.listed(BOB, state="pending", limit=10)] == [bob]
    assert await house.schedules.listed(ANN, state="pending", limit=10) == []
    cancelled = await house.database.value("select count(*) from events where type = 'schedule_cancelled'")
    assert cancelled == 2


async def test_what_is_due_is_taken_as_the_same_run_until_it_is_put_off(house: House) -> None:
    """Whoever takes it after a crash goes on with what was begun; one that is not due is left alone."""
    later, id = await house.make(), await house.due()
    (first,) = await house.schedules.take(limit=10)
    (again,) = await house.schedules.take(limit=10)
    assert first.id == again.id == id
    assert first.run == again.run is not None
    await house.schedules.put_off(first, after=timedelta(seconds=-1), reason="full", certain=False)
    (kept,) = await house.schedules.take(limit=10)
    assert (kept.run, kept.tries, kept.reason) == (first.run, 1, "full")
    await house.schedules.put_off(kept, after=timedelta(seconds=-1), reason="full", certain=True)
    (fresh,) = await house.schedules.take(limit=10)
    assert fresh.run != first.run
    assert (await house.one(later)).run is None


async def test_what_is_being_fired_can_no_longer_be_cancelled(house: House) -> None:
    """*Cancelled* must not be said of what comes all the same; what was put off may be cancelled again."""
    id = await house.due()
    (taken,) = await house.schedules.take(limit=10)
    assert await house.cancel(id) == {"error": f"sched-{id} has happened already"}
    assert await house.schedules.cancel(id, ANN) == "fired"
    await house.schedules.put_off(taken, after=timedelta(hours=1), reason="full", certain=True)
    assert await house.schedules.take(limit=10) == []
    assert await house.cancel(id) == {"text": f"Cancelled sched-{id}"}


async def test_an_end_is_the_last_word(house: House) -> None:
    """A leader that stood still comes back and says what it had to say; nothing of it counts any more."""
    fired, failed = await house.due(), await house.due(text="x")
    taken = {each.id: each for each in await house.schedules.take(limit=10)}
    run = taken[fired].run
    assert run is not None
    await house.schedules.fired(fired, run)
    await house.schedules.fail(failed, reason="no room")
    for id in (fired, failed):
        await house.schedules.fired(id, UUID(int=1))
        await house.schedules.fail(id, reason="another")
        await house.schedules.put_off(taken[id], after=timedelta(0), reason="another", certain=True)
    one, other = await house.one(fired), await house.one(failed)
    assert (one.state, one.run, one.reason, other.state, other.reason) == ("fired", run, None, "failed", "no room")
    assert await house.cancel(failed) == {"error": f"sched-{failed} has failed: no room"}
    assert await house.schedules.cancel(failed, ANN) == "failed"
    assert await house.schedules.take(limit=10) == []


async def seen_by(house: House, whose: Identity) -> list[int]:
    return [each.id for each in await house.schedules.of_person(whose)]


async def test_a_person_sees_what_is_pending_of_theirs(house: House) -> None:
    """The next first, and what failed behind it; and nothing of others, who may come with the same key."""
    second, first = await house.make(delay=7200), await house.make(delay=60)
    failed, _ = await house.make(delay=10), await house.make("key:bob")
    other = await house.make(sender="y")
    await house.schedules.fail(failed, reason="no room")
    await house.cancel(await house.make(delay=5))
    assert await seen_by(house, person()) == [first, second, failed]
    assert await seen_by(house, person(sender="y")) == [other]
    assert await seen_by(house, person(sender="z")) == []


async def test_the_owner_sees_it_however_they_come(house: House) -> None:
    """The operator's senders are one person, and so is whoever the rule says, or somebody has decided."""
    one, two = await house.make("key:default", sender="anna"), await house.make("key:default", sender="cron")
    theirs = await house.make("person:telegram:55")
    operator, telephone = person("key:default"), Identity("telegram:55", OWNER)
    assert await seen_by(house, operator) == [one, two]
    assert await seen_by(house, telephone) == [one, two, theirs]
    await house.database.rows("insert into persons values ('owner')")
    await house.database.rows("insert into identities (name, person, linked) values ('telegram:55', 'owner', true)")
    assert await seen_by(house, operator) == [one, two, theirs]
    assert "text" in await house.cancel(theirs, "key:default")


@pytest.mark.parametrize(
    ("principal", "sender", "conversation"),
    [
        ("key:default", "anna", "http:default:anna"),
        ("key:shop", "anna", "http:shop:anna"),
        ("key:shop", "anna", "system:sub:1:0:0"),
        ("key:shop", "alarm", "http:shop:system:alarm"),
        ("person:telegram:55", "55", "telegram:-7:1"),
        ("person:email:a@b.c", "a@b.c", "email:1"),
    ],
)
async def test_what_was_scheduled_before_there_were_people_has_its_own(
    database: Database, principal: str, sender: str, conversation: str
) -> None:
    """The database says of its old rows what the rule says of new ones."""
    by_rule = People().identity(principal=principal, sender=sender, conversation=conversation)
    said = await database.value("select lucyd_identity(%s, %s, %s)", (principal, sender, conversation))
    assert said == by_rule.name


async def test_those_that_ended_long_ago_are_thrown_away(house: House) -> None:
    """A table of timers must not be a diary; what is pending stays, however long ago it was made."""
    pending, old, young = await house.make(), await house.make(), await house.make()
    await house.cancel(old)
    await house.cancel(young)
    await house.database.rows("update schedules set created_at = now() - interval '400 days'")
    await house.database.rows("update schedules set ended_at = now() - interval '40 days' where id = %s", (old,))
    upkeep = PostgresUpkeep(house.database)
    assert await upkeep.forget_schedules(older_than=timedelta(days=30), limit=1000) == 1
    assert [row[0] for row in await house.database.rows("select id from schedules order by id")] == [pending, young]
