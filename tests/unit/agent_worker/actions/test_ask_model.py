"""Asking a model over passing faults; money is set aside and settled for each request."""

from datetime import timedelta

import pytest

from shared.domain.money import Usage
from shared.errors import ModelRejected, ModelTimeout, TryLater
from shared.ports.model import ModelAnswer, ModelRequest, OnDelta
from tests.builders import CONVERSATION, RATES
from tests.unit.agent_worker.actions.workroom import SPEC, Room, with_manner


class BreaksOff:
    """A model that says a little and then loses the line."""

    def __init__(self) -> None:
        self.spec = SPEC
        self.requests: list[ModelRequest] = []

    async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        self.requests.append(request)
        on_delta("text", "Once upon a time")
        raise TryLater("the line broke")


async def test_a_busy_provider_is_asked_again() -> None:
    """A 429 is no reason to give up; each request has its own reservation and settlement."""
    room = await Room(TryLater("busy"), TryLater("busy", after=20.0), ModelAnswer("hi")).open()
    run = await room.accept()
    await room.serve()

    assert (await room.outcome(run))["reply"] == "hi"
    assert len({request.call_id for request in room.model.requests}) == 3
    assert await room.every_call_is_booked()
    assert [row.cost for row in await room.world.booked()] == [0, 0, 0]  # what was refused is free
    first, second = room.clock.slept[:2]
    assert 1.0 <= first <= 3.0
    assert second == 20.0
    retries = [event.data for event in await room.events(run) if event.type == "retry"]
    assert [retry["attempt"] for retry in retries] == [1, 2]
    assert all(retry["keep"] == "0-1" for retry in retries)


async def test_a_long_pause_is_waited_for_without_a_slot() -> None:
    """A provider that says *in five minutes* must not hold up those who could be answered meanwhile."""
    room = await Room(TryLater("busy", after=300.0), ModelAnswer("hi")).open()
    run = await room.accept()
    await room.serve()
    row = room.world.tables.runs[run]
    assert (row.state, row.wait_reason, row.retries) == ("waiting", "retry", 1)
    assert room.world.tables.conversations[CONVERSATION].owner is None
    assert room.bus.owners == {}
    assert room.clock.slept == []
    assert await room.every_call_is_booked()

    room.clock.advance(299)
    await room.serve()
    assert row.state == "waiting"
    room.clock.advance(2)
    assert list(await room.runs.orphans(older_than=timedelta(0), limit=5)) == [CONVERSATION]
    await room.serve()
    outcome = await room.outcome(run)
    assert (outcome["state"], outcome["reply"]) == ("done", "hi")
    assert row.attempts == 1  # a wait is nobody's fault
    assert await room.every_call_is_booked()
    assert [event.type for event in await room.events(run)] == ["attempt", "retry", "attempt", "delta", "done"]


async def test_a_wait_does_not_give_new_tries() -> None:
    """A provider that is away for ever ends the run after as many tries as without waits."""
    room = await Room(*[TryLater("busy", after=60.0) for _ in range(3)], manner=with_manner(retries=2)).open()
    run = await room.accept()
    for _ in range(3):
        await room.serve()
        room.clock.advance(60)

    assert (await room.outcome(run))["state"] == "failed"
    assert len(room.model.requests) == 3
    assert await room.every_call_is_booked()


async def test_a_pause_that_is_longer_than_a_run_may_take_ends_it() -> None:
    """Its deadline holds for the provider too, and its line must not stand still for a day."""
    room = await Room(TryLater("busy", after=86_400.0)).open()
    run = await room.accept(deadline=timedelta(minutes=10))
    await room.serve()

    assert (await room.outcome(run))["error"].startswith("The model asks to wait for longer than this may take")
    assert await room.every_call_is_booked()


async def test_the_time_of_a_run_goes_on_while_its_provider_wants_a_pause() -> None:
    """Only a person's pause stops it."""
    room = await Room(TryLater("busy", after=400.0), ModelAnswer("hi")).open()
    run = await room.accept(deadline=timedelta(minutes=10))
    await room.serve()
    room.clock.advance(601)
    assert list(await room.world.runs.expire(limit=9)) == [run]


async def test_a_provider_that_stays_away_is_given_up() -> None:
    """The person is told, and the message is as if never said."""
    room = await Room(
        *[TryLater("busy") for _ in range(3)], manner=with_manner(retries=2, error_message="Sorry.")
    ).open()
    outcome = await room.answer()

    assert (outcome["state"], outcome["reply"], outcome["error_message"]) == ("failed", "", "Sorry.")
    assert "busy" in outcome["error"]
    assert len(room.model.requests) == 3
    assert room.history() == []
    assert await room.every_call_is_booked()


@pytest.mark.parametrize("fault", [ModelTimeout("no answer in 10 minutes"), ModelRejected("bad request")])
async def test_what_a_retry_can_not_help_is_not_tried_again(fault: Exception) -> None:
    """A timeout has cost its ten minutes and its money already."""
    room = await Room(fault).open()
    outcome = await room.answer()

    assert (outcome["state"], outcome["error"]) == ("failed", str(fault))
    assert len(room.model.requests) == 1
    assert room.clock.slept == []
    assert await room.every_call_is_booked()


async def test_a_refused_call_is_free_and_one_that_timed_out_is_not() -> None:
    """A provider that worked for ten minutes bills what it has read."""
    refused = await Room(ModelRejected("no")).open()
    await refused.answer()
    slow = await Room(ModelTimeout("no answer")).open()
    await slow.answer()

    assert [row.cost for row in await refused.world.booked()] == [0]
    (booked,) = await slow.world.booked()
    assert booked.estimated
    assert booked.cost > 0


async def test_what_was_heard_before_the_line_broke_is_paid_for() -> None:
    """A guess, and flagged as one."""
    room = await Room(manner=with_manner(retries=0)).open()
    model = BreaksOff()
    room.desk.models["primary"] = model  # type: ignore[index]
    outcome = await room.answer("x" * 400)

    assert outcome["state"] == "failed"
    (booked,) = await room.world.booked()
    assert booked.estimated
    assert booked.cost >= RATES.cost(Usage(input=100, output=4))
    assert not await room.world.open_reservations()


async def test_each_call_has_the_time_that_the_operator_gave() -> None:
    """Every wait is bounded."""
    room = await Room(ModelAnswer("hi"), manner=with_manner(call_timeout=timedelta(seconds=7))).open()
    await room.answer()

    assert room.model.requests[0].timeout == timedelta(seconds=7)


async def test_nothing_is_asked_on_an_old_beat() -> None:
    """A worker that may have been fenced must not act; when its beat is fresh again it goes on."""
    room = await Room(ModelAnswer("hi")).open()
    room.pulse.age = timedelta(seconds=4)
    run = await room.accept()
    await room.serve()

    assert room.model.requests == []
    assert list(await room.world.inbox.outcomes([run])) == []
    assert 59 < sum(room.clock.slept) < 61
    room.pulse.age = timedelta(seconds=3.9)
    await room.serve(CONVERSATION)
    assert (await room.outcome(run))["reply"] == "hi"
