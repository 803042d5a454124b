"""Who counts as dead: a beat that stands still, by the watcher's own clock."""

from collections.abc import Sequence
from typing import Literal
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from shared.actions.watch_peers import PeerWatch
from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.inmemory.fleet import InMemoryFleet
from shared.adapters.inmemory.tables import Tables
from shared.errors import TryLater
from shared.ids import new_id
from shared.ports.fleet import Identity, Peer
from tests.builders import identity


class Watched:
    """A fleet of one peer that can be away, and a watcher."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.tables = Tables(self.clock)
        self.inner = InMemoryFleet(self.tables)
        self.peer = identity()
        self.gone: set[UUID] = set()
        self.away: set[str] = set()
        self.query_takes = 0.0
        self.asked_to_fence = 0
        self.stale: Sequence[Peer] = ()
        self.watch = PeerWatch(self, self.clock, me=new_id(), is_gone=lambda who: who.id in self.gone)

    async def start(self) -> "Watched":
        await self.inner.register(self.peer)
        return self

    async def register(self, identity: Identity) -> None:
        await self.inner.register(identity)

    async def peers(self) -> Sequence[Peer]:
        if "peers" in self.away:
            raise TryLater("Postgres can't be reached")
        peers = self.stale or await self.inner.peers()
        self.clock.advance(self.query_takes)
        return peers

    async def fence(
        self, worker: UUID, *, beat: int | None, state: Literal["fenced", "stopped"]
    ) -> Sequence[str] | None:
        self.asked_to_fence += 1
        if "fence" in self.away:
            raise TryLater("Postgres can't be reached")
        return await self.inner.fence(worker, beat=beat, state=state)

    async def absolve(self, worker: UUID) -> None:
        await self.inner.absolve(worker)

    async def drain(self, worker: UUID) -> None:
        await self.inner.drain(worker)

    @property
    def state(self) -> str:
        return self.tables.workers[self.peer.id].state

    async def look_after(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.watch.look()

    async def look_for(self, seconds: float) -> None:
        """Look every second, and once more at the end."""
        whole, rest = divmod(seconds, 1)
        for _ in range(int(whole)):
            await self.look_after(1)
        await self.look_after(rest)


async def test_a_beat_that_stands_still_for_six_seconds_is_fenced() -> None:
    """Not a moment earlier: a takeover from a living worker costs an answer."""
    watched = await Watched().start()
    await watched.look_after(0)
    await watched.look_for(5.9)
    assert watched.state == "alive"
    await watched.look_after(0.1)
    assert watched.state == "fenced"


async def test_a_worker_that_beats_is_left_alone() -> None:
    """Every two seconds is plenty."""
    watched = await Watched().start()
    for _ in range(20):
        await watched.look_after(2)
        watched.inner.beat(watched.peer.id)
    await watched.look_for(5.9)
    assert watched.state == "alive"


async def test_a_watcher_that_slept_fences_nobody_on_its_first_look() -> None:
    """A suspended laptop wakes up with an old memory; the beat has moved on meanwhile."""
    watched = await Watched().start()
    await watched.look_after(0)
    watched.inner.beat(watched.peer.id)
    await watched.look_after(3600)
    assert watched.state == "alive"


@pytest.mark.parametrize("what", ["peers", "fence"])
async def test_when_postgres_was_away_everybody_starts_anew(what: str) -> None:
    """Nobody could beat then, so nobody is to blame."""
    watched = await Watched().start()
    await watched.look_after(0)
    watched.away.add(what)
    with pytest.raises(TryLater):
        await watched.look_for(7)
    watched.away.clear()
    await watched.look_after(0.1)
    assert watched.state == "alive"
    await watched.look_for(5.9)
    assert watched.state == "alive"
    await watched.look_after(0.1)
    assert watched.state == "fenced"


async def test_a_look_that_hung_and_was_answered_starts_anew() -> None:
    """Postgres stood still for as long: the beats stood in the same line as the look."""
    watched = await Watched().start()
    await watched.look_for(2)
    watched.query_takes = 8
    await watched.look_after(1)
    assert watched.state == "alive"
    watched.query_takes = 0
    await watched.look_for(5)
    assert watched.state == "alive"
    await watched.look_after(1)
    assert watched.state == "fenced"


async def test_a_watcher_that_has_not_looked_for_long_starts_anew() -> None:
    """What held it up, a sleeping machine perhaps, may have held up the beats as well."""
    watched = await Watched().start()
    await watched.look_after(0)
    await watched.look_after(3600)
    assert watched.state == "alive"
    await watched.look_for(5.9)
    assert watched.state == "alive"
    await watched.look_after(0.1)
    assert watched.state == "fenced"


async def test_a_fence_that_came_too_late_is_not_told_of() -> None:
    """An operator who reads of a fenced worker looks for a dead one."""
    watched = await Watched().start()
    watched.inner.beat(watched.peer.id)
    watched.gone.add(watched.peer.id)
    seen = await watched.inner.peers()
    await watched.inner.fence(watched.peer.id, beat=None, state="fenced")
    watched.stale = seen
    with capture_logs() as told:
        await watched.look_after(0)
    assert watched.asked_to_fence == 1
    assert told == []


async def test_a_worker_of_this_host_that_is_gone_is_fenced_at_once() -> None:
    """Its pid says so; there is nothing to wait for."""
    watched = await Watched().start()
    watched.gone.add(watched.peer.id)
    await watched.look_after(0)
    assert watched.state == "fenced"


async def test_the_others_are_remembered_as_they_were_seen_last() -> None:
    """Whoever wants to know its colleagues need not ask Postgres again."""
    watched = await Watched().start()
    assert list(watched.watch.others) == []
    await watched.watch.look()
    assert list(watched.watch.others) == [watched.peer]
    watched.away.add("peers")
    with pytest.raises(TryLater):
        await watched.watch.look()
    assert list(watched.watch.others) == [watched.peer]


async def test_nobody_fences_itself() -> None:
    """A worker knows about itself from its own beat."""
    watched = await Watched().start()
    watched.watch = PeerWatch(watched, watched.clock, me=watched.peer.id, is_gone=lambda _: True)
    await watched.look_after(0)
    await watched.look_after(60)
    assert watched.state == "alive"
