"""What every list of workers promises, asked of the fake and of Postgres."""

import asyncio

import pytest

from shared.ids import new_id
from tests.builders import CONVERSATION, identity, new_run
from tests.runs_worlds import InMemoryWorld, PostgresWorld, World


@pytest.fixture(params=["inmemory", "postgres"])
def world(request: pytest.FixtureRequest) -> World:
    return InMemoryWorld() if request.param == "inmemory" else PostgresWorld(request.getfixturevalue("database"))


async def test_a_registered_worker_is_seen_as_it_said(world: World) -> None:
    """Peers of the same host tell by these fields whether it is gone."""
    mine = identity()
    await world.fleet.register(mine)
    await world.fleet.register(mine)  # the answer got lost
    (peer,) = await world.fleet.peers()

    assert peer.identity == mine
    assert peer.beat == 0
    await world.beat(mine.id)
    (peer,) = await world.fleet.peers()
    assert peer.beat == 1


async def test_a_draining_worker_still_counts_as_living(world: World) -> None:
    """It finishes what it has in hand, and may still die doing it."""
    worker = await world.hire()
    await world.fleet.drain(worker)

    assert [peer.identity.id for peer in await world.fleet.peers()] == [worker]
    assert await world.fleet.fence(worker, beat=0, state="fenced") == []
    assert list(await world.fleet.peers()) == []


async def test_a_worker_that_has_beaten_meanwhile_is_not_fenced(world: World) -> None:
    """Who looked at it slept; the beat decides, and not the looker's clock."""
    world.me = await world.hire()
    await world.accept(new_run())
    await world.claim()
    await world.beat(world.me)
    assert await world.fleet.fence(world.me, beat=0, state="fenced") is None
    assert len(await world.fleet.peers()) == 1
    assert await world.booked() == []

    assert await world.fleet.fence(world.me, beat=1, state="fenced") == [CONVERSATION]
    assert list(await world.fleet.peers()) == []


async def test_a_worker_is_fenced_once_however_many_peers_see_it(world: World) -> None:
    """Its conversations are handed out once."""
    world.me = await world.hire()
    for name in ("a", "b", "c"):
        await world.accept(new_run(conversation=name))
        await world.claim(name)
    freed = await asyncio.gather(*(world.fleet.fence(world.me, beat=0, state="fenced") for _ in range(5)))

    (only,) = [one for one in freed if one is not None]
    assert sorted(only) == ["a", "b", "c"]
    assert len(await world.booked()) == 3


async def test_a_worker_that_stops_frees_what_it_has(world: World) -> None:
    """It says goodbye whatever its beat is."""
    world.me = await world.hire()
    await world.accept(new_run())
    await world.claim()
    await world.beat(world.me)

    assert await world.fleet.fence(world.me, beat=None, state="stopped") == [CONVERSATION]
    assert await world.fleet.fence(world.me, beat=None, state="stopped") is None


async def test_a_worker_that_never_was_can_not_be_fenced(world: World) -> None:
    """Nothing happens, and nobody else is hurt."""
    await world.hire()
    assert await world.fleet.fence(new_id(), beat=None, state="fenced") is None
    assert len(await world.fleet.peers()) == 1
