"""How much is accepted, and what those hear who come beyond it."""

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from shared.actions.keep_door import LONGEST_WAIT, Bounds, Doorkeeper
from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.inmemory.inbox import InMemoryInbox
from shared.adapters.inmemory.tables import Tables
from shared.domain.run import NewRun
from shared.errors import Conflict, Full, TryLater
from tests.builders import address, key, new_run


class CountedInbox(InMemoryInbox):
    """Knows how often it was asked for a count; it may be ``away``."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self.counts = 0
        self.away = False

    async def open_runs(self) -> dict[str, int]:
        self.counts += 1
        if self.away:
            raise TryLater("Postgres can't be reached")
        await asyncio.sleep(0.01)
        return dict(await super().open_runs())


class Place:
    """A door over a store of runs."""

    def __init__(self, *, of_one: int = 0, of_all: int = 0) -> None:
        self.clock = ManualClock()
        self.tables = Tables(self.clock)
        self.inbox = CountedInbox(self.tables)
        self.door = Doorkeeper(self.inbox, self.clock, Bounds(of_one, of_all))
        self.number = 0

    def message(self, principal: str = "key:a") -> NewRun:
        self.number += 1
        return new_run(address=address(f"c{self.number}", principal=principal))

    async def let_in(self, count: int, principal: str = "key:a") -> list[UUID]:
        return [(await self.door.accept(self.message(principal))).run for _ in range(count)]

    def end(self, count: int) -> None:
        for row in [row for row in self.tables.runs.values() if row.state == "accepted"][:count]:
            row.state = "done"


async def test_beyond_its_bound_a_principal_is_refused_and_others_are_not() -> None:
    """And nothing of what was refused is stored."""
    place = Place(of_one=3)
    await place.let_in(3)
    with pytest.raises(Full) as refused:
        await place.let_in(1)
    await place.let_in(1, "key:b")

    assert not refused.value.of_all
    assert len(place.tables.runs) == 4


async def test_beyond_the_bound_of_all_everybody_is_refused() -> None:
    """The whole house is full; whoever brings messages from elsewhere may leave them there."""
    place = Place(of_one=3, of_all=4)
    await place.let_in(2)
    await place.let_in(2, "key:b")
    with pytest.raises(Full) as refused:
        await place.let_in(1, "key:c")
    assert refused.value.of_all


async def test_many_at_once_do_not_slip_past_the_bound() -> None:
    """Each counts from the moment it comes in, and not only when it is stored."""
    place = Place(of_one=5)
    messages = [place.message() for _ in range(50)]
    outcomes = await asyncio.gather(*map(place.door.accept, messages), return_exceptions=True)

    assert sum(isinstance(outcome, Full) for outcome in outcomes) == 45
    assert len(place.tables.runs) == 5


async def test_it_counts_once_a_second_and_only_while_messages_come() -> None:
    """An exact count for each message would cost more than the message."""
    place = Place(of_one=1000)
    await place.let_in(50)
    assert place.inbox.counts == 1
    place.clock.advance(60)
    assert place.inbox.counts == 1
    await place.let_in(50)
    assert place.inbox.counts == 2


async def test_what_has_ended_makes_room_within_a_second() -> None:
    """Also after a long silence nobody is refused for what was open then."""
    place = Place(of_one=3)
    await place.let_in(3)
    place.end(3)
    with pytest.raises(Full):
        await place.let_in(1)
    place.clock.advance(1)
    await place.let_in(3)
    with pytest.raises(Full):
        await place.let_in(1)


async def test_after_a_silence_those_who_come_together_are_judged_by_what_is_open_now() -> None:
    """One of them has it counted, and the others wait for that: what was open then has ended long ago."""
    place = Place(of_one=5)
    await place.let_in(5)
    place.end(5)
    place.clock.advance(60)
    outcomes = await asyncio.gather(*(place.door.accept(place.message()) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(outcome, Full) for outcome in outcomes) == 3
    assert place.inbox.counts == 2


async def test_a_door_that_knows_nothing_yet_lets_nobody_slip_past() -> None:
    """A gateway that has just started finds the house as full as it is."""
    place = Place(of_one=5)
    await place.let_in(5)
    fresh = Doorkeeper(place.inbox, place.clock, Bounds(of_one=5))
    outcomes = await asyncio.gather(*(fresh.accept(place.message()) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(outcome, Full) for outcome in outcomes)


async def test_who_leaves_while_it_is_counted_takes_nobody_along() -> None:
    """The one who had it counted may hang up."""
    place = Place(of_one=5)
    first = asyncio.create_task(place.door.accept(place.message()))
    await asyncio.sleep(0)
    second = asyncio.create_task(place.door.accept(place.message()))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).created
    assert place.inbox.counts == 1


async def test_a_known_key_gets_its_run_also_at_the_bound() -> None:
    """A caller that lost the answer must find its run, and not be told to come back for it; nor does it count twice."""
    place = Place(of_one=1)
    first = replace(place.message(), idempotency=key())
    accepted = await place.door.accept(first)
    again = await place.door.accept(replace(place.message(), idempotency=key()))

    assert (again.run, again.created) == (accepted.run, False)
    with pytest.raises(Conflict):
        await place.door.accept(replace(place.message(), idempotency=key(body=b"other")))
    with pytest.raises(Full):
        await place.let_in(1)


async def test_the_wait_is_by_the_rate_at_which_runs_end() -> None:
    """An honest word: a house that empties fast says so, and one that stands still does not promise a second."""
    place = Place(of_one=100)
    await place.let_in(100)
    with pytest.raises(Full) as unknown:
        await place.let_in(1)
    assert unknown.value.after == LONGEST_WAIT
    place.clock.advance(10)
    place.end(5)
    await place.let_in(5)
    with pytest.raises(Full) as slow:
        await place.let_in(1)

    assert slow.value.after == 2.0  # one in two seconds


async def test_without_bounds_nothing_is_counted() -> None:
    """Who wants none pays nothing for them."""
    place = Place()
    await place.let_in(20)
    assert place.inbox.counts == 0


async def test_a_count_that_fails_refuses_nobody() -> None:
    """Whether Postgres is there, accepting itself will say."""
    place = Place(of_one=2)
    place.inbox.away = True
    await place.let_in(2)
    assert place.inbox.counts == 1
    with pytest.raises(Full):
        await place.let_in(1)


async def test_a_message_that_could_not_be_stored_takes_no_room() -> None:
    """Else a line that is full would fill the principal's room with what never was."""
    place = Place(of_one=2)
    await place.let_in(1)
    for _ in range(5):
        with pytest.raises(Full, match="in this conversation"):
            await place.door.accept(new_run(address=address("c1", principal="key:a"), capacity=1))
    await place.let_in(1)
