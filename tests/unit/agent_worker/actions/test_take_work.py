"""Slots: each conversation in hand once, and never more than there is room for."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from services.agent_worker.actions.remember_history import Histories, Remembered
from services.agent_worker.actions.serve_conversation import Fenced
from services.agent_worker.actions.take_work import PAUSE_WITHOUT_REDIS, WorkInHand, take_work
from services.agent_worker.rules.fair_share import FairShare
from shared.errors import TryLater
from shared.ids import new_id
from shared.ports.bus import WakeUp
from shared.ports.model import ModelAnswer
from tests.builders import CONVERSATION, new_run
from tests.unit.agent_worker.actions.workroom import Room, until


def _hand(room: Room, *, slots: int = 2) -> WorkInHand:
    return WorkInHand(room.desk, room.histories, share=FairShare(slots))


async def test_a_wake_up_is_answered_and_forgotten() -> None:
    """From the stream to the reply."""
    room = await Room(ModelAnswer("hi")).open()
    hand = _hand(room)
    run = await room.accept()
    await room.bus.wake([WakeUp(CONVERSATION, run)])
    taking = asyncio.create_task(take_work(room.bus, room.runs, hand, sleep=room.clock.sleep))
    await until(lambda: hand.served == 1 and hand.count == 0)
    await room.desk.outlet.flush()

    assert (await room.outcome(run))["reply"] == "hi"
    assert room.bus.waiting == []
    taking.cancel()


async def test_no_more_is_taken_than_there_are_slots() -> None:
    """What this worker can't work on is another's."""
    hold = asyncio.Event()
    room = await Room(hold, hold, *[ModelAnswer("hi") for _ in range(3)]).open()
    hand = _hand(room, slots=2)
    for name in ("a", "b", "c"):
        await room.world.accept(new_run(conversation=name))
        await room.bus.wake([WakeUp(name)])
    taking = asyncio.create_task(take_work(room.bus, room.runs, hand, sleep=room.clock.sleep))
    await until(lambda: len(room.model.requests) == 2)

    assert (hand.count, hand.free, hand.conversations) == (2, 0, ["a", "b"])
    hold.set()
    await until(lambda: hand.served == 3)
    taking.cancel()


async def test_a_conversation_in_hand_is_looked_at_once_more() -> None:
    """A message that came while the last one was finishing must not wait for the sweep."""
    hold = asyncio.Event()
    room = await Room(hold, ModelAnswer("one"), ModelAnswer("two")).open()
    hand = _hand(room)
    await room.accept("1")
    hand.take(CONVERSATION)
    await until(lambda: room.model.requests)
    second = await room.accept("2")
    hand.take(CONVERSATION, entry="9-0")
    assert hand.count == 1
    hold.set()
    await hand.empty()
    await room.desk.outlet.flush()

    assert (await room.outcome(second))["reply"] == "two"
    assert "9-0" in [entry for batch in room.bulletin.batches for entry in batch.acknowledge]


async def test_a_redis_that_is_away_is_asked_again() -> None:
    """It costs nothing but a pause; the sweep finds the work in Postgres."""
    room = await Room(ModelAnswer("hi")).open()
    hand = _hand(room)
    await room.accept()
    bus = room.bus

    class Away:
        faults = 3

        async def wake(self, wake_ups: Sequence[WakeUp]) -> None:
            await bus.wake(wake_ups)

        async def take(self, *, limit: int, wait: timedelta) -> Sequence[WakeUp]:
            if self.faults:
                self.faults -= 1
                raise TryLater("Redis can't be reached")
            return await bus.take(limit=limit, wait=wait)

        async def take_left(self, *, mark: str, limit: int) -> tuple[Sequence[WakeUp], str]:
            return await bus.take_left(mark=mark, limit=limit)

        async def reclaim(self, *, idle: timedelta, limit: int) -> Sequence[WakeUp]:
            return await bus.reclaim(idle=idle, limit=limit)

    await bus.wake([WakeUp(CONVERSATION)])
    taking = asyncio.create_task(take_work(Away(), room.runs, hand, sleep=room.clock.sleep))
    await until(lambda: hand.served == 1)

    assert room.clock.slept == [PAUSE_WITHOUT_REDIS] * 3
    taking.cancel()


async def test_a_fault_that_only_a_new_process_can_mend_is_raised() -> None:
    """A fenced worker must not go on as if nothing had happened."""
    room = await Room().open()
    hand = _hand(room)
    await room.accept()
    await room.world.fence(room.worker)
    watching = asyncio.create_task(hand.watch())
    hand.take(CONVERSATION)
    (fault,) = await asyncio.wait_for(asyncio.gather(watching, return_exceptions=True), 5)

    assert isinstance(fault, Fenced)


async def test_a_drained_hand_takes_nothing_and_drops_what_does_not_end() -> None:
    """After its time a drain stops everything where it is; whoever comes next does it again."""
    room = await Room(asyncio.Event()).open()
    hand = _hand(room)
    run = await room.accept()
    hand.take(CONVERSATION)
    await until(lambda: room.model.requests)
    room.desk.draining.set()
    assert hand.free == 0
    assert await hand.drop() == [CONVERSATION]
    await hand.empty()
    heir = await room.heir(ModelAnswer("hi"))
    await heir.serve()

    assert (await heir.outcome(run))["reply"] == "hi"
    assert await room.every_call_is_booked()


async def test_an_attempt_that_was_overtaken_is_stopped_and_what_waits_behind_it_is_answered() -> None:
    """After a reset nobody waits for the run that it cancelled, and that run's tools do not go on."""
    hold = asyncio.Event()
    room = await Room(hold, ModelAnswer("after the reset")).open()
    hand = _hand(room)
    await room.accept("a long errand")
    hand.take(CONVERSATION)
    await until(lambda: len(room.model.requests) == 1)
    held = hand.epochs
    assert await room.runs.overtaken(held, worker=room.desk.worker) == []
    await room.world.inbox.reset(CONVERSATION, new_id(), source="http", sender="x")
    second = await room.accept("and now?")
    (gone,) = await room.runs.overtaken(held, worker=room.desk.worker)
    hand.overtaken(gone, held[gone])
    await until(lambda: hand.count == 0)

    assert (await room.outcome(second))["reply"] == "after the reset"
    assert room.desk.owed == []
    assert await room.every_call_is_booked()  # the one that was cut, too


async def test_a_claim_that_has_moved_on_is_not_taken_for_an_overtaken_one() -> None:
    """Between the question and the answer this worker may have claimed the next run itself."""
    hold = asyncio.Event()
    room = await Room(hold, ModelAnswer("hi")).open()
    hand = _hand(room)
    run = await room.accept()
    hand.take(CONVERSATION)
    await until(lambda: len(room.model.requests) == 1)
    hand.overtaken(CONVERSATION, hand.epochs[CONVERSATION] - 1)
    hold.set()
    await until(lambda: hand.count == 0)
    assert (await room.outcome(run))["state"] == "done"


async def test_one_broken_conversation_does_not_end_the_others() -> None:
    """A fault outside of an attempt is this conversation's own."""
    room = await Room(ModelAnswer("hi")).open()
    hand = _hand(room)
    run = await room.accept()

    class Broken(Histories):
        def lend(self, conversation: str) -> Remembered | None:
            if conversation == "broken":
                raise RuntimeError("a fault of our own")
            return super().lend(conversation)

    hand = WorkInHand(room.desk, Broken(1_000_000), share=FairShare(2))
    hand.take("broken")
    hand.take(CONVERSATION)
    await until(lambda: hand.count == 0)
    assert (await room.outcome(run))["reply"] == "hi"
    watching = asyncio.create_task(hand.watch())
    await asyncio.sleep(0.01)
    assert not watching.done()
    watching.cancel()
