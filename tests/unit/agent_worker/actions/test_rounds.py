"""What a worker does beside its conversations."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal
from uuid import UUID

from services.agent_worker.actions.rounds import Rounds
from services.agent_worker.actions.take_work import WorkInHand
from shared.actions.watch_peers import PeerWatch
from shared.adapters.inmemory.fleet import InMemoryFleet
from shared.errors import TryLater
from tests.builders import CONVERSATION
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
        inbox=room.world.runs,
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
