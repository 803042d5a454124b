"""Who awaits a run hears its end, or what it asks; from Redis at once, from Postgres within a second."""

import asyncio
from datetime import timedelta

import pytest

from services.gateway.actions.wait_for_reply import WaitingRoom
from shared.adapters.inmemory.bus import InMemoryBus
from shared.domain.run import Claim, Question, Write
from shared.errors import TryLater
from tests.builders import asked, call, final_write, new_run, said, waiting, write
from tests.runs_worlds import InMemoryWorld

NOW = timedelta(milliseconds=50)


def asks(claim: Claim, question: str = "May I?", *, step: int = 1) -> Write:
    """A run that asks its person, and waits."""
    wait = waiting(asked(question=question))
    return write(claim, messages=[said("", call("exec"))], waiting=wait, step=step, stage="tools")


@pytest.fixture
def room(world: InMemoryWorld) -> WaitingRoom:
    bus = InMemoryBus(world.clock)
    return WaitingRoom(bus, bus, world.inbox, world.clock)


async def test_a_caller_is_asked_what_the_run_asks(world: InMemoryWorld, room: WaitingRoom) -> None:
    """Otherwise the caller and the run would wait for each other."""
    run = (await world.accept(new_run())).run
    claim = await world.claim()
    with room.expect(run) as expected:
        await world.store(claim, asks(claim, "May I?"))
        assert await expected.outcome(within=NOW) is None
        await room.look()
        question = await expected.outcome(within=NOW)
    assert isinstance(question, Question)
    assert (question.run, question.text) == (run, "May I?")


async def test_who_waits_for_the_end_is_not_disturbed_by_questions(world: InMemoryWorld, room: WaitingRoom) -> None:
    """A cancel is over when the run is."""
    run = (await world.accept(new_run())).run
    claim = await world.claim()
    await world.store(claim, asks(claim))
    with room.expect(run) as expected:
        await room.look()
        assert not await expected.end(within=NOW)
        await world.inbox.cancel(run, reason="Enough.")
        await room.look()
        assert await expected.end(within=NOW)


async def test_an_end_weighs_more_than_a_question(world: InMemoryWorld, room: WaitingRoom) -> None:
    """Both may be known by the time the caller looks."""
    run = (await world.accept(new_run())).run
    claim = await world.claim()
    await world.store(claim, asks(claim))
    with room.expect(run) as expected:
        await room.look()
        await world.inbox.cancel(run, reason="Enough.")
        await room.look()
        outcome = await expected.outcome(within=NOW)
    assert isinstance(outcome, dict)
    assert outcome["state"] == "cancelled"


async def test_an_end_that_is_told_nowhere_yet_is_looked_for_at_once(world: InMemoryWorld, room: WaitingRoom) -> None:
    """A run that was cancelled before anybody had it has no worker that would tell."""
    run = (await world.accept(new_run())).run
    with room.expect(run) as one, room.expect(run) as other:
        await world.inbox.cancel(run, reason="Enough.")
        room.look_again(run)
        outcomes = await asyncio.gather(one.outcome(within=NOW), other.outcome(within=NOW))
    assert [isinstance(outcome, dict) and outcome["error"] for outcome in outcomes] == ["Enough."] * 2


async def test_whoever_answers_is_told_the_next_question(world: InMemoryWorld, room: WaitingRoom) -> None:
    """Their text was merged into the run, and it is the run that asks."""
    await world.accept(new_run())
    claim = await world.claim()
    await world.store(claim, asks(claim))
    answer = new_run("yes")
    assert (await world.accept(answer)).into == claim.run
    with room.expect(answer.id) as expected:
        await room.look()
        assert await expected.outcome(within=NOW) is None  # decided, and not begun yet: nothing is asked now
        claim = await world.claim()
        await world.store(claim, asks(claim, "And this?", step=2))
        await room.look()
        question = await expected.outcome(within=NOW)
    assert isinstance(question, Question)
    assert question.text == "And this?"


async def test_the_one_outcome_comes_to_all_who_wait(world: InMemoryWorld, room: WaitingRoom) -> None:
    """However many, and none is left in the books."""
    run = (await world.accept(new_run())).run
    claim = await world.claim()
    with room.expect(run) as one, room.expect(run) as other:
        await world.store(claim, final_write(claim, "hi"))
        await room.look()
        outcomes = [await each.outcome(within=NOW) for each in (one, other)]
    assert [isinstance(outcome, dict) and outcome["reply"] for outcome in outcomes] == ["hi", "hi"]
    with room.expect(run) as late:
        assert await late.outcome(within=NOW) is None


async def test_a_gateway_that_goes_sends_all_away(room: WaitingRoom, world: InMemoryWorld) -> None:
    """Their time is over, as if it had taken too long: the run goes on. And nobody new comes in."""
    run = (await world.accept(new_run())).run
    with room.expect(run) as one:
        room.close()
        assert await one.outcome(within=timedelta(minutes=1)) is None
        assert not await one.end(within=timedelta(minutes=1))
    with pytest.raises(TryLater), room.expect(run):
        pass
