"""What becomes of a dead worker's runs, asked of the fake and of Postgres."""

import asyncio

from shared.domain.run import Claim
from shared.ids import new_id
from tests.builders import (
    CONVERSATION,
    ROUTE,
    final_write,
    new_run,
)
from tests.runs_worlds import World


async def test_a_fence_books_what_may_have_been_bought(world: World) -> None:
    """A call that was out when its worker died is paid for; the guess is flagged as one."""
    await world.accept(new_run())
    claim = await world.claim()
    await world.fence()

    (booked,) = await world.booked()
    assert (booked.call_id, booked.cost, booked.estimated) == (claim.call_id, ROUTE.worst_case, True)
    assert await world.open_reservations() == set()


async def test_a_fence_books_calls_whose_conversation_moved_on(world: World) -> None:
    """A reset frees the conversation, but the call that was out is still out when its worker dies."""
    await world.accept(new_run())
    claim = await world.claim()
    await world.runs.reset(CONVERSATION, new_id(), source="http", sender="anna")
    await world.fence()

    (booked,) = await world.booked()
    assert (booked.call_id, booked.estimated) == (claim.call_id, True)
    assert await world.open_reservations() == set()


async def test_a_fence_leaves_the_calls_of_others_alone(world: World) -> None:
    """Their money is settled by themselves."""
    other = await world.hire()
    await world.accept(new_run(conversation="a"))
    await world.accept(new_run(conversation="b"))
    await world.claim("a")
    theirs = await world.claim("b", worker=other)
    assert list(await world.fence() or ()) == ["a"]

    assert await world.open_reservations() == {theirs.call_id}
    assert await world.store(theirs, final_write(theirs), worker=other) is False


async def test_many_claims_racing_with_a_fence_leave_nothing_owned_by_the_dead(world: World) -> None:
    """Whichever comes first: a fenced worker owns nothing afterwards."""
    names = [f"c{number}" for number in range(12)]
    for name in names:
        await world.accept(new_run(conversation=name))
        await world.accept(new_run(conversation=name))
        claim = await world.claim(name)
        await world.store(claim, final_write(claim))  # more waits, so it is still owned
    got = await asyncio.wait_for(asyncio.gather(*(world.ask(name) for name in names), world.fence()), 5)
    await world.wait(0.01)

    heir = await world.hire()
    for name, one in zip(names, got, strict=False):
        assert isinstance(one, Claim) or one == "fenced"
        assert isinstance(await world.ask(name, worker=heir), Claim)
    assert all(booked.estimated for booked in await world.booked() if booked.cost == ROUTE.worst_case)
