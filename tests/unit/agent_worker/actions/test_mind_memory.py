"""What a worker does above its memory limit, step by step."""

import asyncio

from services.agent_worker.actions.mind_memory import MindMemory
from services.agent_worker.actions.take_work import WorkInHand
from services.agent_worker.rules.fair_share import FairShare
from shared.ports.model import ModelAnswer
from tests.builders import CONVERSATION
from tests.unit.agent_worker.actions.workroom import Room

MB = 1_000_000


class Memory:
    """As much as a test says; ``given_back`` counts how often the system was asked to take some back."""

    def __init__(self) -> None:
        self.used = 50 * MB
        self.given_back = 0

    def resident(self) -> int:
        return self.used

    def give_back(self) -> None:
        self.given_back += 1


def _mind(room: Room, memory: Memory) -> tuple[MindMemory, WorkInHand]:
    hand = WorkInHand(room.desk, room.histories, share=FairShare(2))
    mind = MindMemory(hand, room.histories, limit=100 * MB, resident=memory.resident, give_back=memory.give_back)
    return mind, hand


async def _answer_one(room: Room, hand: WorkInHand) -> None:
    await room.accept()
    hand.take(CONVERSATION)
    await hand.empty()


async def test_below_its_limit_nothing_happens() -> None:
    """Histories are kept for the next message."""
    room, memory = await Room(ModelAnswer("hi")).open(), Memory()
    mind, hand = _mind(room, memory)
    await _answer_one(room, hand)
    assert mind.look()
    assert (mind.taking, hand.takes, memory.given_back) == ("yes", True, 0)
    assert room.histories.lend(CONVERSATION) is not None


async def test_histories_go_first() -> None:
    """They can be read again; nobody notices."""
    room, memory = await Room(ModelAnswer("hi")).open(), Memory()
    mind, hand = _mind(room, memory)
    await _answer_one(room, hand)
    memory.used = 101 * MB
    assert mind.look()
    assert (mind.taking, hand.takes, memory.given_back) == ("yes", True, 1)
    assert room.histories.lend(CONVERSATION) is None


async def test_still_above_it_takes_nothing_new_until_it_is_well_below() -> None:
    """What it has in hand goes on; a worker at the edge does not change its mind each second."""
    room, memory = await Room(asyncio.Event()).open(), Memory()
    mind, hand = _mind(room, memory)
    await room.accept()
    hand.take(CONVERSATION)
    memory.used = 101 * MB
    assert all(mind.look() for _ in range(5))
    assert (mind.taking, hand.takes, hand.count) == ("no (memory)", False, 1)

    memory.used = 95 * MB
    assert mind.look()
    assert not hand.takes
    memory.used = 89 * MB
    assert mind.look()
    assert (mind.taking, hand.takes) == ("yes", True)
    await hand.drop()


async def test_with_nothing_in_hand_and_still_above_it_is_started_anew() -> None:
    """Nothing else can help it any more, and nothing is lost by it."""
    room, memory = await Room().open(), Memory()
    mind, _ = _mind(room, memory)
    memory.used = 101 * MB
    assert [mind.look() for _ in range(3)] == [True, True, False]


async def test_it_looks_each_second_until_it_must_go() -> None:
    """Without a limit it never does."""
    room, memory = await Room().open(), Memory()
    memory.used = 101 * MB
    mind, _ = _mind(room, memory)
    await mind.watch(sleep=room.clock.sleep)
    assert room.clock.slept == [1.0, 1.0, 1.0]
