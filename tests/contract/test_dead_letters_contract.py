"""What every store of dead letters promises, asked of the fake and of Postgres."""

from datetime import UTC, datetime, timedelta
from typing import Protocol
from uuid import UUID

import orjson
import pytest

from shared.adapters.inmemory.dead_letters import InMemoryDeadLetters
from shared.adapters.postgres.dead_letters import PostgresDeadLetters
from shared.adapters.postgres.pool import Database
from shared.domain.run import Address
from shared.ids import new_id
from shared.ports.dead_letters import DeadKind, DeadLetter, DeadLetters, DeadMessage, Scope

MINE, THEIRS, NOBODYS = "key:default", "key:phone", "person:7"
ALL = Scope(None)
NOON = datetime(2026, 5, 21, 12, 0, tzinfo=UTC)
WORKER = new_id()


class DeadWorld(Protocol):
    dead: DeadLetters

    async def give_up(self, kind: DeadKind, principal: str = MINE, *, hours: int = 0) -> UUID: ...


class InMemoryDeadWorld:
    """Over a dictionary."""

    def __init__(self) -> None:
        self._store = InMemoryDeadLetters()
        self.dead: DeadLetters = self._store

    async def give_up(self, kind: DeadKind, principal: str = MINE, *, hours: int = 0) -> UUID:
        id = new_id()
        letter = DeadLetter(
            id=id,
            kind=kind,
            open=True,
            state="failed" if kind == "delivery" else "dead",
            reason="it broke",
            conversation=f"telegram:{id}",
            principal=principal,
            run=id,
            at=NOON + timedelta(hours=hours),
            attempts=4,
            worker=WORKER,
            step=2 if kind == "run" else None,
            about={"run": "message", "delivery": "telegram", "webhook": "callback"}[kind],
            retried_as=None,
        )
        address = Address(letter.conversation, "telegram", principal, "Ada")
        message = DeadMessage("message", address, "hi", "telegram", "full", "ada", {"notify_meta": 7}, "callback")
        self._store.give_up(letter, message if kind == "run" else None)
        return id


class PostgresDeadWorld:
    """Over Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.dead: DeadLetters = PostgresDeadLetters(database)

    async def give_up(self, kind: DeadKind, principal: str = MINE, *, hours: int = 0) -> UUID:
        run, id, at = new_id(), new_id(), NOON + timedelta(hours=hours)
        conversation = f"telegram:{run}"
        await self._database.rows(
            "insert into conversations (key, channel, principal, contact) values (%s, 'telegram', %s, 'Ada')",
            (conversation, principal),
        )
        await self._database.rows(
            "insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message,"
            " deadline_at, attempts, step, suspected_by, finished_at, outcome, webhook) values"
            " (%s, %s, 1, 'message', %s, 'telegram', 'full', %s, 'ada', %s::jsonb, now(), 4, 2, %s, %s, %s::jsonb,"
            " 'callback')",
            (run, conversation, "dead" if kind == "run" else "done", principal,
             orjson.dumps({"text": "hi", "notify_meta": 7}).decode(), WORKER, at, '{"error": "it broke"}'),
        )  # fmt: skip
        if kind == "delivery":
            await self._database.rows(
                "insert into deliveries (id, run, conversation, channel, ordinal, part, body, state, attempts, error,"
                " bridge, created_at) values (%s, %s, %s, 'telegram', 1, 1, '{}', 'failed', 4, 'it broke', %s, %s)",
                (id, run, conversation, WORKER, at),
            )
        elif kind == "webhook":
            await self._database.rows(
                "insert into webhooks (id, run, target, body, state, attempts, error, sender, created_at)"
                " values (%s, %s, 'callback', '{}', 'dead', 4, 'it broke', %s, %s)",
                (id, run, WORKER, at),
            )
        return run if kind == "run" else id


@pytest.fixture(params=["inmemory", "postgres"])
def world(request: pytest.FixtureRequest) -> DeadWorld:
    if request.param == "inmemory":
        return InMemoryDeadWorld()
    return PostgresDeadWorld(request.getfixturevalue("database"))


KINDS: tuple[DeadKind, ...] = ("run", "delivery", "webhook")


@pytest.mark.parametrize("kind", KINDS)
async def test_one_that_was_given_up_is_told_with_all_that_is_known(world: DeadWorld, kind: DeadKind) -> None:
    """Why, when, after how many tries, and who had it last."""
    id = await world.give_up(kind)
    (letter,) = await world.dead.open(ALL)
    assert (letter.id, letter.kind, letter.open) == (id, kind, True)
    assert letter.state == ("failed" if kind == "delivery" else "dead")
    assert (letter.reason, letter.at, letter.attempts, letter.worker) == ("it broke", NOON, 4, WORKER)
    assert letter.step == (2 if kind == "run" else None)
    assert letter.about == {"run": "message", "delivery": "telegram", "webhook": "callback"}[kind]
    assert letter.retried_as is None
    assert await world.dead.find(id, ALL) == letter


async def test_the_newest_come_first_and_no_more_than_asked_for(world: DeadWorld) -> None:
    """What broke last is what one looks for."""
    ids = [await world.give_up(kind, hours=hours) for hours, kind in enumerate(KINDS)]
    assert [letter.id for letter in await world.dead.open(ALL)] == ids[::-1]
    assert [letter.id for letter in await world.dead.open(ALL, limit=1)] == ids[-1:]


@pytest.mark.parametrize("kind", KINDS)
async def test_everybody_sees_their_own_and_the_operator_what_is_nobodys(world: DeadWorld, kind: DeadKind) -> None:
    """Another key's ids are as unknown as ids that never were."""
    mine, theirs, nobodys = [await world.give_up(kind, principal) for principal in (MINE, THEIRS, NOBODYS)]
    operator, phone = Scope(MINE, keyless=True), Scope(THEIRS)
    assert {letter.id for letter in await world.dead.open(operator)} == {mine, nobodys}
    assert {letter.id for letter in await world.dead.open(phone)} == {theirs}
    assert await world.dead.find(theirs, operator) is None
    assert await world.dead.find(nobodys, phone) is None
    assert await world.dead.find(new_id(), ALL) is None


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_dropped_leaves_the_list_and_is_still_found(world: DeadWorld, kind: DeadKind) -> None:
    """Once; a second time nothing happens."""
    id = await world.give_up(kind)
    assert await world.dead.drop(kind, id)
    assert not await world.dead.drop(kind, id)
    assert not await world.dead.revive(kind, id)
    assert await world.dead.open(ALL) == []
    letter = await world.dead.find(id, ALL)
    assert letter is not None
    assert (letter.state, letter.open) == ("dropped", False)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_revived_is_given_up_no_more_and_a_run_never_is(world: DeadWorld, kind: DeadKind) -> None:
    """A run has one end; its message may be accepted again."""
    id = await world.give_up(kind)
    assert await world.dead.revive(kind, id) == (kind != "run")
    assert not await world.dead.revive(kind, id)
    assert (await world.dead.find(id, ALL) is None) == (kind != "run")


async def test_the_message_of_a_dead_run_is_whole(world: DeadWorld) -> None:
    """With everything that came with it, and where its end is to be told."""
    run, webhook = await world.give_up("run"), await world.give_up("webhook")
    message = await world.dead.message(run)
    assert message is not None
    assert (message.kind, message.text, message.details) == ("message", "hi", {"notify_meta": 7})
    assert (message.source, message.tier, message.sender, message.webhook) == ("telegram", "full", "ada", "callback")
    assert (message.address.channel, message.address.principal, message.address.contact) == ("telegram", MINE, "Ada")
    assert await world.dead.message(webhook) is None
