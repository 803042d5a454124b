"""A surplus worker leaves work to its elders, takes what they leave, and comes back when it is needed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from services.agent_worker.actions.stand_back import StandBack
from services.agent_worker.actions.take_work import LOOK_EVERY, PAUSE_WITHOUT_REDIS, WorkInHand, take_work
from services.agent_worker.rules.fair_share import FairShare
from services.agent_worker.rules.standing_back import FINDS
from shared.adapters.inmemory.clock import ManualClock
from shared.adapters.inmemory.colleagues import InMemoryColleagues
from shared.errors import TryLater
from shared.messages.worker_figures import WorkerFigures
from shared.ports.bus import WakeUp
from shared.ports.fleet import Identity
from shared.ports.model import ModelAnswer
from tests.builders import identity, new_run
from tests.unit.agent_worker.actions.workroom import Room, until

OFTEN = 1000


@dataclass(slots=True)
class TwoProcessors:
    """As busy as a test says."""

    share: float | None = 1.0
    count: int = 2
    name: str = "0-1"

    def busy(self) -> float | None:
        return self.share


@dataclass(slots=True)
class Machine:
    """Workers of one machine in the order of their start, all of which read each other's figures."""

    processors: TwoProcessors = field(default_factory=TwoProcessors)
    colleagues: InMemoryColleagues = field(default_factory=InMemoryColleagues)
    clock: ManualClock = field(default_factory=ManualClock)
    identities: list[Identity] = field(default_factory=list)
    workers: list[StandBack] = field(default_factory=list)

    def start(self, count: int = 1, *, boot_id: str = "boot-1/ns") -> StandBack:
        for _ in range(count):
            me = identity(id=UUID(int=len(self.identities) + 1), boot_id=boot_id, host=f"c{len(self.identities)}")
            self.identities.append(me)
            worker = StandBack(
                me,
                processors=self.processors,
                peers=lambda: self.identities[::-1],
                colleagues=self.colleagues,
                clock=self.clock,
            )
            self.workers.append(worker)
            self.tell(worker)
        return self.workers[-1]

    def tell(self, worker: StandBack, *, taking: str | None = None, in_hand: int = 0, waits: float = 0.0) -> None:
        """What the worker writes every two seconds."""
        told = WorkerFigures(worker.machine, taking or worker.taking, in_hand, 128, 0, timedelta(seconds=waits))
        self.colleagues.tell(self.identities[self.workers.index(worker)].id, told.told())

    async def second(self) -> list[bool]:
        """Everybody looks, then everybody tells."""
        for worker in self.workers:
            await worker.look()
        for worker in self.workers:
            self.tell(worker)
        return [worker.stands_back for worker in self.workers]


async def test_the_youngest_stand_back_while_the_processors_are_full() -> None:
    """As many as there are processors go on, and always the same ones."""
    machine = Machine()
    machine.start(4)
    for _ in range(5):
        assert await machine.second() == [False, False, True, True]
    assert [worker.taking for worker in machine.workers[1:3]] == ["yes", "no (processors are full)"]
    machine.processors.share = 0.7
    assert await machine.second() == [False] * 4


async def test_when_an_elder_goes_the_next_takes_its_place() -> None:
    """Its hash is taken away at its goodbye, and expires when it was killed. Until one has said that it takes its
    place, both do."""
    machine = Machine()
    machine.start(4)
    await machine.second()
    gone = machine.identities.pop(0)
    machine.workers.pop(0)
    machine.colleagues.forget(gone.id)
    assert await machine.second() == [False, False, False]
    for _ in range(5):
        assert await machine.second() == [False, False, True]


async def test_an_elder_without_memory_is_stood_in_for() -> None:
    """It takes nothing, so it does not count."""
    machine = Machine()
    first, *_ = (machine.start(), machine.start(3))
    machine.tell(first, taking="no (memory)")
    for worker in machine.workers[1:]:
        await worker.look()
    assert [worker.stands_back for worker in machine.workers] == [False, False, False, True]


async def test_workers_of_other_machines_do_not_count() -> None:
    """Theirs are other processors."""
    machine = Machine()
    machine.start(2, boot_id="boot-1/ns")
    machine.start(1, boot_id="boot-2/ns")
    machine.start(1, boot_id="boot-1/other-container")
    assert await machine.second() == [False, False, False, True]


async def test_while_redis_is_away_everybody_takes() -> None:
    """Nobody can say whether somebody else does."""
    machine = Machine()
    machine.start(4)
    await machine.second()
    machine.colleagues.away = True
    assert await machine.second() == [False] * 4


async def test_with_calm_processors_nobody_is_asked() -> None:
    """An idle machine has better things to do."""
    machine = Machine(processors=TwoProcessors(share=0.5))
    machine.start(4)
    for worker in machine.workers:
        await worker.look()
        assert not worker.stands_back
    assert machine.colleagues.asked == 0


async def test_where_nobody_can_tell_how_busy_they_are_nobody_stands_back() -> None:
    """Not every system counts it."""
    machine = Machine(processors=TwoProcessors(share=None))
    machine.start(4)
    assert await machine.second() == [False] * 4


async def test_who_finds_something_again_and_again_takes_as_usual_for_ten_seconds() -> None:
    """The elders say that they take, and do not: stopped, or not given a turn."""
    machine = Machine()
    machine.start(2)
    worker = machine.start()
    await worker.look()
    for _ in range(FINDS - 1):
        worker.looked(found=True)
    worker.looked(found=False)
    for _ in range(FINDS - 1):
        worker.looked(found=True)
    assert worker.stands_back
    worker.looked(found=True)
    assert not worker.stands_back
    for _ in range(9):
        machine.clock.advance(1)
        await worker.look()
        assert not worker.stands_back
    machine.clock.advance(1)
    await worker.look()
    assert worker.stands_back


async def test_it_looks_each_second() -> None:
    """Neither the figures nor the processors say anything newer sooner."""
    machine = Machine()
    machine.start(2)
    worker = machine.start()
    watching = asyncio.create_task(worker.watch())
    await until(lambda: len(machine.clock.slept) > 3)
    watching.cancel()
    assert set(machine.clock.slept) == {1.0}
    assert worker.stands_back


@dataclass(slots=True)
class Looks:
    """A worker's pauses between two looks, each of which ends when the test says so."""

    slept: list[float] = field(default_factory=list)
    go: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self.go.acquire()

    async def look(self, times: int = 1) -> None:
        """Let it look so many times."""
        for _ in range(times):
            before = len(self.slept)
            self.go.release()
            await until(lambda before=before: len(self.slept) > before)  # type: ignore[misc]


@asynccontextmanager
async def _surplus(room: Room, looks: Looks) -> AsyncIterator[tuple[WorkInHand, StandBack]]:
    """A worker that stands back and has looked once."""
    machine = Machine()
    machine.start(2)
    surplus = machine.start()
    await surplus.look()
    hand = WorkInHand(room.desk, room.histories, share=FairShare(OFTEN))
    taking = asyncio.create_task(take_work(room.bus, room.runs, hand, sleep=looks.sleep, surplus=surplus))
    await until(lambda: looks.slept)
    try:
        yield hand, surplus
    finally:
        taking.cancel()
        await hand.drop()


async def _send(room: Room, *names: str) -> None:
    for name in names:
        run = (await room.world.accept(new_run(conversation=name))).run
        await room.bus.wake([WakeUp(name, run)])


async def test_who_stands_back_leaves_work_to_a_peer_that_waits_for_it() -> None:
    """The peer has taken it long before the next look."""
    elder = await Room(*[ModelAnswer("hi") for _ in range(20)]).open()
    room = await elder.peer()
    looks = Looks()
    hand = WorkInHand(elder.desk, elder.histories, share=FairShare(OFTEN))
    taking = asyncio.create_task(take_work(elder.bus, elder.runs, hand, sleep=elder.clock.sleep))
    async with _surplus(room, looks) as (mine, surplus):
        for number in range(20):
            await _send(room, f"c{number}")
            await looks.look()  # sees it come
            await until(lambda number=number: hand.served > number)  # type: ignore[misc]
            await looks.look()
        assert surplus.stands_back
        assert (hand.served, mine.served) == (20, 0)
        assert set(looks.slept) == {LOOK_EVERY}
    taking.cancel()
    await hand.drop()


async def test_who_stands_back_takes_what_nobody_stands_for() -> None:
    """Between its first look and its second nobody has taken it, so nobody will."""
    room = await Room(ModelAnswer("hi")).open()
    looks = Looks()
    async with _surplus(room, looks) as (hand, surplus):
        await _send(room, "a")
        await looks.look()
        assert hand.count == 0
        await looks.look()
        await until(lambda: hand.served == 1)
        assert surplus.stands_back


async def test_who_finds_eight_in_a_row_takes_the_rest_at_once() -> None:
    """No message waits for an elder that has stopped."""
    names = [f"c{number}" for number in range(30)]
    room = await Room(*[ModelAnswer("hi") for _ in names]).open()
    looks = Looks()
    async with _surplus(room, looks) as (hand, surplus):
        await _send(room, *names)
        await looks.look(FINDS)
        assert surplus.stands_back
        await looks.look()
        assert not surplus.stands_back
        looks.go.release()
        await until(lambda: hand.served == 30)
        assert len(looks.slept) == 1 + FINDS + 1


async def test_who_stands_back_goes_on_with_what_it_has() -> None:
    """What a sweep finds is taken as before, too: it goes to the worker's own hand."""
    hold = asyncio.Event()
    room = await Room(hold, ModelAnswer("a"), ModelAnswer("b")).open()
    looks = Looks()
    async with _surplus(room, looks) as (hand, surplus):
        run = (await room.world.accept(new_run(conversation="orphan"))).run
        hand.take("orphan")
        await until(lambda: room.model.requests)
        hold.set()
        await hand.empty()
        assert surplus.stands_back
        assert (await room.outcome(run))["state"] == "done"


async def test_a_redis_that_is_away_is_asked_again_after_a_pause() -> None:
    """As by everybody else."""
    room = await Room().open()
    looks = Looks()
    async with _surplus(room, looks) as (_, surplus):

        async def away(*, mark: str, limit: int) -> tuple[list[WakeUp], str]:
            raise TryLater("Redis can't be reached")

        room.bus.take_left = away  # type: ignore[method-assign]
        await looks.look()
        assert looks.slept[-1] == PAUSE_WITHOUT_REDIS
        assert surplus.stands_back
