"""What a worker does beside its conversations."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal
from uuid import UUID

from services.agent_worker.actions.rounds import Rounds
from services.agent_worker.actions.take_work import WorkInHand
from shared.actions.watch_peers import PeerWatch
from shared.adapters.inmemory.fleet import InMemoryFleet
from shared.errors import TryLater
from shared.ports.model import ModelAnswer
from tests.builders import CONVERSATION, address, new_run
from tests.unit.agent_worker.actions.workroom import Room


class AwayFleet(InMemoryFleet):
    """Postgres is away while ``away`` is true."""

    away = False

    async def drain(self, worker: UUID) -> None:
        if self.away:
            raise TryLater("Postgres can't be reached")
        await super().drain(worker)

    async def fence(
        self, worker: UUID, *, beat: int | None, state: Literal["fenced", "stopped"]
    ) -> Sequence[str] | None:
        if self.away:
            raise TryLater("Postgres can't be reached")
        return await super().fence(worker, beat=beat, state=state)


def rounds_of(room: Room, hand: WorkInHand) -> tuple[Rounds, AwayFleet]:
    fleet = AwayFleet(room.world.tables)
    rounds = Rounds(
        desk=room.desk,
        hand=hand,
        runs=room.runs,
        inbox=room.world.inbox,
        fleet=fleet,
        watch=PeerWatch(fleet, room.clock, me=room.worker, is_gone=lambda _: False),
        bulletin=room.bulletin,
        wake_ups=room.bus,
        drain_within=timedelta(seconds=1),
    )
    return rounds, fleet


async def test_a_goodbye_while_postgres_is_away_is_a_goodbye_all_the_same() -> None:
    """A process that is told to stop ends; its peers find it gone when Postgres is back."""
    room = await Room().open()
    async with room.at_work() as hand:
        rounds, fleet = rounds_of(room, hand)
        fleet.away = True
        await rounds.drain()

    assert room.desk.draining.is_set()
    assert room.world.tables.workers[room.worker].state == "alive"


async def test_a_goodbye_leaves_nothing_owned() -> None:
    """What waits is for the peers at once."""
    room = await Room().open()
    await room.accept()
    async with room.at_work() as hand:
        rounds, _ = rounds_of(room, hand)
        await rounds.drain()

    assert room.world.tables.workers[room.worker].state == "stopped"
    assert room.world.tables.conversations[CONVERSATION].owner is None


async def test_an_attempt_that_a_goodbye_drops_does_not_count() -> None:
    """A step that takes longer than a drain may is done again; that is the deploy's doing, not the run's."""
    room = await Room(asyncio.Event()).open()
    run = await room.accept()
    async with room.at_work() as hand:
        rounds, _ = rounds_of(room, hand)
        hand.take(CONVERSATION)
        async with asyncio.timeout(5):
            while not room.model.requests:
                await asyncio.sleep(0.001)
        await rounds.drain()

    assert room.world.tables.runs[run].attempts == 0  # the next one is the first
    assert room.world.tables.conversations[CONVERSATION].owner is None


async def test_a_goodbye_waits_for_what_is_being_read() -> None:
    """A wake-up that Redis hands out to nobody would lie there until a sweep."""
    room = await Room().open()
    async with room.at_work() as hand:
        rounds, _ = rounds_of(room, hand)
        await hand.reading.acquire()
        leaving = asyncio.create_task(rounds.drain())
        await asyncio.sleep(0.05)
        assert not leaving.done()
        hand.take(CONVERSATION, entry="9-0")
        hand.reading.release()
        await leaving

    assert [wake_up.conversation for wake_up in room.bus.waiting] == [CONVERSATION]
    assert "9-0" in [entry for batch in room.bulletin.batches for entry in batch.acknowledge]


async def test_what_a_sweep_finds_beyond_the_slots_does_not_wait_for_the_next_sweep() -> None:
    """When a worker is killed with a full line, another one has all of it to do, and not one window of it a second."""
    room = await Room(*[ModelAnswer("hi") for _ in range(8)]).open()
    runs = []
    for number in range(8):
        run = new_run("hello", address=address(f"c{number}"))
        await room.world.accept(run)  # and nobody is woken
        runs.append(run.id)
    await room.clock.sleep(2)
    async with room.at_work(slots=2) as hand:
        rounds, _ = rounds_of(room, hand)
        await rounds.sweep()
        async with asyncio.timeout(5):
            while hand.served < 8:
                await asyncio.sleep(0.001)
    for each in runs:
        assert (await room.outcome(each))["reply"] == "hi"
