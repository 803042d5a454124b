"""What an operator decides about a dead letter."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from services.gateway.actions.decide_dead import Terms, drop_dead, find_dead, retry_dead
from shared.adapters.inmemory.bus import InMemoryBus
from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.inmemory.dead_letters import InMemoryDeadLetters
from shared.adapters.inmemory.inbox import InMemoryInbox
from shared.adapters.inmemory.tables import Tables
from shared.domain.child_run import CHILD_CONVERSATIONS
from shared.errors import BadInput, NotFound
from shared.ids import new_id
from shared.ports.dead_letters import DeadLetter, DeadMessage, Scope
from tests.builders import CONVERSATION, address

EVERYBODY = Scope(None)
TERMS = Terms(timedelta(hours=1), 10, timedelta(hours=24))


def letter(**fields: Any) -> DeadLetter:
    """A dead run of an API key."""
    id = new_id()
    whole = DeadLetter(
        id=id,
        kind="run",
        open=True,
        state="dead",
        reason="Four workers died with it.",
        conversation=CONVERSATION,
        principal="key:default",
        run=id,
        at=datetime(2026, 5, 21, tzinfo=UTC),
        attempts=4,
        worker=new_id(),
        step=2,
        about="message",
        retried_as=None,
    )
    return replace(whole, **fields)


def asked(**fields: Any) -> DeadMessage:
    """What it was asked."""
    whole = DeadMessage(
        kind="message",
        address=address(),
        text="once more",
        source="http",
        tier="full",
        sender="anna",
        details={"notify_meta": {"order": 7}},
        webhook="callback",
    )
    return replace(whole, **fields)


class Office:
    """A store of dead letters beside the runs."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.tables = Tables(clock)
        self.bus = InMemoryBus(clock)
        self.inbox = InMemoryInbox(self.tables)
        self.dead = InMemoryDeadLetters()

    async def retry(self, given: DeadLetter) -> UUID | None:
        return await retry_dead(given, dead=self.dead, inbox=self.inbox, wake_ups=self.bus, terms=TERMS)


async def test_a_dead_run_is_tried_again_as_a_new_one_with_the_same_message() -> None:
    """The old one stays what it was, and leaves the list; a worker is woken for the new one."""
    office = Office()
    given = letter()
    office.dead.give_up(given, asked())
    run = await office.retry(given)

    assert run is not None
    assert run != given.id
    row = office.tables.runs[run]
    assert row.message == {"text": "once more", "notify_meta": {"order": 7}}
    assert (row.sender, row.conversation, row.state) == ("anna", CONVERSATION, "accepted")
    assert [wake_up.run for wake_up in office.bus.waiting] == [run]
    assert await office.dead.open(EVERYBODY) == []


async def test_asked_twice_it_is_tried_once() -> None:
    """Two operators, or one whose answer got lost; also when the first died before the old run was dismissed."""
    office = Office()
    given = letter()
    office.dead.give_up(given, asked())
    first = await office.retry(given)
    assert await office.retry(given) == first
    assert await office.retry(replace(given, open=False, state="retried", retried_as=first)) == first
    assert len(office.tables.runs) == 1


async def test_a_webhook_goes_out_again_itself() -> None:
    """There is nothing to answer anew."""
    office = Office()
    given = letter(kind="webhook", step=None)
    office.dead.give_up(given)
    assert await office.retry(given) is None
    assert await office.dead.find(given.id, EVERYBODY) is None
    assert office.tables.runs == {}


async def test_what_was_dropped_is_not_tried_again_and_what_is_tried_again_not_dropped() -> None:
    """One decision is enough."""
    office = Office()
    given = letter()
    office.dead.give_up(given, asked())
    await drop_dead(given, dead=office.dead)
    dropped = await find_dead(given.id, EVERYBODY, office.dead)
    with pytest.raises(BadInput, match="was dropped"):
        await office.retry(dropped)
    with pytest.raises(BadInput, match="is tried again as"):
        await drop_dead(letter(open=False, retried_as=new_id()), dead=office.dead)


async def test_a_compaction_is_not_tried_again() -> None:
    """The next long answer asks for one."""
    office = Office()
    given = letter(about="compact")
    office.dead.give_up(given, asked(kind="compact", text=""))
    with pytest.raises(BadInput, match="drop it"):
        await office.retry(given)


async def test_a_sub_agent_is_not_tried_again() -> None:
    """Nobody waits for it any more."""
    office = Office()
    given = letter()
    office.dead.give_up(given, asked(address=address(f"{CHILD_CONVERSATIONS}{new_id()}:1:0")))
    with pytest.raises(BadInput, match="a sub-agent is not tried again"):
        await office.retry(given)


async def test_nobody_decides_about_what_is_not_theirs() -> None:
    """Another key sees nothing; the operator's key also sees what came over no key."""
    office = Office()
    theirs, of_telegram = letter(principal="key:phone"), letter(principal="person:7")
    office.dead.give_up(theirs)
    office.dead.give_up(of_telegram)
    operator, phone = Scope("key:default", keyless=True), Scope("key:phone")
    assert [one.id for one in await office.dead.open(operator)] == [of_telegram.id]
    assert [one.id for one in await office.dead.open(phone)] == [theirs.id]
    with pytest.raises(NotFound):
        await find_dead(theirs.id, operator, office.dead)
    with pytest.raises(NotFound):
        await find_dead(of_telegram.id, phone, office.dead)
