"""Slots are given out fairly: what waits, whose turn it is, and where it goes when this worker takes no more."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

from services.agent_worker.actions.take_work import WorkInHand, take_work
from services.agent_worker.rules.fair_share import FairShare
from shared.ports.bus import WakeUp
from shared.ports.model import ModelAnswer
from tests.builders import address, new_run
from tests.unit.agent_worker.actions.workroom import Room, until

HALF = FairShare(4, window=0.5)


async def _accept(room: Room, conversation: str, principal: str, text: str = "hello") -> UUID:
    run = new_run(text, address=replace(address(conversation), principal=principal))
    await room.world.accept(run)
    await room.bus.wake([WakeUp(conversation, run.id, principal=principal)])
    return run.id


@asynccontextmanager
async def _taking(room: Room, share: FairShare = HALF) -> AsyncIterator[WorkInHand]:
    hand = WorkInHand(room.desk, room.histories, share=share)
    taking = asyncio.create_task(take_work(room.bus, room.runs, hand, sleep=room.clock.sleep))
    try:
        yield hand
    finally:
        taking.cancel()
        await hand.drop()


async def test_a_flood_leaves_room_for_somebody_else() -> None:
    """Another key's message is begun at once, however many stand before it on the stream."""
    hold = asyncio.Event()
    room = await Room(hold, hold, hold).open()
    for number in range(20):
        await _accept(room, f"flood{number}", "key:a")
    await _accept(room, "quiet", "key:b")
    async with _taking(room) as hand:
        await until(lambda: len(room.model.requests) == 3)

        assert hand.conversations == ["flood0", "flood1", "quiet"]
        assert (hand.in_line, hand.free, hand.full) == (18, 1, ["key:a"])
        await room.desk.outlet.flush()
        assert len(room.bus.waiting) == 0  # Postgres has it; nobody need read it again


async def test_a_worker_tells_for_how_long_the_first_in_its_line_has_waited() -> None:
    """Colleagues that stand back see by it when this one needs them."""
    hold = asyncio.Event()
    room = await Room(hold, hold).open()
    for number in range(2):
        await _accept(room, f"c{number}", "key:a")
    async with _taking(room) as hand:
        await until(lambda: len(room.model.requests) == 2)
        assert (hand.slots, hand.waits.total_seconds()) == (4, 0)
        await _accept(room, "late", "key:a")
        await until(lambda: hand.in_line == 1)
        room.clock.advance(3)
        assert hand.waits.total_seconds() == 3


async def test_what_waits_is_begun_as_slots_come_free() -> None:
    """Nobody waits for the sweep."""
    room = await Room(*[ModelAnswer("hi") for _ in range(9)]).open()
    runs = [await _accept(room, f"c{number}", "key:a") for number in range(9)]
    async with _taking(room) as hand:
        await until(lambda: hand.served == 9 and hand.count == 0)
    for run in runs:
        assert (await room.outcome(run))["reply"] == "hi"


async def test_a_worker_without_a_free_slot_reads_on() -> None:
    """Else the message that stands behind a flood would not be known when the next slot comes free."""
    holds = [asyncio.Event() for _ in range(4)]
    fifth = asyncio.Event()  # keeps whoever is begun next until that is seen
    room = await Room(*holds, ModelAnswer("hi"), fifth, *[ModelAnswer("hi") for _ in range(9)]).open()
    for number in range(4):
        await _accept(room, f"first{number}", "key:a" if number % 2 else "key:b")
    async with _taking(room) as hand:
        await until(lambda: len(room.model.requests) == 4)
        for number in range(5):
            await _accept(room, f"later{number}", "key:a")
        await _accept(room, "quiet", "key:c")
        await until(lambda: hand.in_line == 6)
        holds[0].set()
        await until(lambda: len(room.model.requests) == 5)

        assert "quiet" in hand.conversations


async def test_a_long_line_behind_one_message_is_no_privilege() -> None:
    """Between two runs of a conversation its slot goes to whoever holds none."""
    holds = [asyncio.Event() for _ in range(2)]
    room = await Room(*holds, *[ModelAnswer("hi") for _ in range(5)]).open()
    first = await _accept(room, "deep", "key:a", "1")
    second = await _accept(room, "deep", "key:a", "2")
    await _accept(room, "other", "key:b")
    async with _taking(room, FairShare(2, window=0.5)) as hand:
        await until(lambda: len(room.model.requests) == 2)
        quiet = await _accept(room, "quiet", "key:c")
        await until(lambda: hand.in_line == 1)
        holds[0].set()
        await until(lambda: hand.served >= 3)
        await until(lambda: hand.count == 1)
        assert (await room.outcome(first))["state"] == "done"
        assert (await room.outcome(quiet))["state"] == "done"
        assert (await room.outcome(second))["state"] == "done"


async def test_a_wake_up_without_a_name_is_looked_up() -> None:
    """Older code beside this one does not say whose it is; its floods count all the same."""
    hold = asyncio.Event()
    room = await Room(hold, hold).open()
    for number in range(5):
        await room.world.accept(new_run(address=replace(address(f"c{number}"), principal="key:a")))
        await room.bus.wake([WakeUp(f"c{number}")])
    async with _taking(room) as hand:
        await until(lambda: len(room.model.requests) == 2)
        assert (hand.full, hand.in_line) == (["key:a"], 3)


async def test_a_claim_tells_whose_a_nameless_conversation_is() -> None:
    """Postgres was away when it was asked; the claim is the first that could know."""
    hold = asyncio.Event()
    room = await Room(hold).open()
    await room.world.accept(new_run(address=replace(address("c"), principal="key:a")))
    hand = WorkInHand(room.desk, room.histories, share=FairShare(2, window=0.5))
    hand.take("c")
    await until(lambda: room.model.requests)

    assert list(hand.full) == ["key:a"]
    await hand.drop()


async def test_what_waits_is_passed_on_at_the_goodbye() -> None:
    """Its entries were acknowledged long ago; peers shall not need their sweep to find it."""
    hold = asyncio.Event()
    room = await Room(hold, hold).open()
    for number in range(4):
        await _accept(room, f"c{number}", "key:a")
    async with _taking(room) as hand:
        await until(lambda: len(room.model.requests) == 2)
        room.desk.draining.set()
        assert list(hand.pass_on()) == ["c2", "c3"]
        hand.take("late", "key:b", entry="")
        await room.desk.outlet.flush()

        woken = [(wake_up.conversation, wake_up.principal) for wake_up in room.bus.waiting]
        assert woken == [("c2", "key:a"), ("c3", "key:a"), ("late", "key:b")]
        assert (hand.count, hand.in_line) == (2, 0)


async def test_a_worker_that_pauses_passes_on_what_waits_and_takes_again_later() -> None:
    """Too much memory in use is no reason to keep others' work waiting."""
    holds = [asyncio.Event(), asyncio.Event()]
    room = await Room(*holds, *[ModelAnswer("hi") for _ in range(4)]).open()
    runs = [await _accept(room, f"c{number}", "key:a") for number in range(4)]
    async with _taking(room) as hand:
        await until(lambda: len(room.model.requests) == 2)
        hand.pause()
        assert (hand.takes, hand.free, hand.in_line) == (False, 0, 0)
        await room.desk.outlet.flush()
        holds[0].set()
        holds[1].set()
        await hand.empty()
        await asyncio.sleep(0.01)
        await room.desk.outlet.flush()  # what its own read, which was under way, has brought back is passed on again
        assert sorted(wake_up.conversation for wake_up in room.bus.waiting) == ["c2", "c3"]

        hand.resume()
        await until(lambda: hand.served == 4 and hand.count == 0)
    for run in runs:
        assert (await room.outcome(run))["state"] == "done"
