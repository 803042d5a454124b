"""A worker's memory of histories: never a gap, never a row twice, whatever others did meanwhile."""

import gc
import tracemalloc
from uuid import UUID

import orjson
import pytest

from services.agent_worker.actions.desk import CompactionManner
from services.agent_worker.actions.remember_history import Histories, Remembered, add_row
from shared.domain.chat import Message
from shared.domain.money import Usage
from shared.domain.run import StoredMessage
from shared.ports.model import ModelAnswer
from tests.builders import CONVERSATION, new_run
from tests.unit.agent_worker.actions.workroom import Room, with_manner


def _heard(room: Room, request: int = -1) -> list[str]:
    """What the model read, without the times."""
    messages = room.model.requests[request].messages
    return [str(message.get("content", message.get("text"))).rsplit("\n", 1)[-1] for message in messages]


async def test_a_history_in_memory_grows_by_what_is_new() -> None:
    """The model reads the same as if everything had been fetched anew."""
    room = await Room(*[ModelAnswer(f"a{number}") for number in range(4)]).open()
    for number in range(4):
        await room.answer(f"q{number}")
    assert _heard(room) == ["q0", "a0", "q1", "a1", "q2", "a2", "q3"]

    held = room.histories.lend(CONVERSATION)
    assert held is not None
    assert (held.known.ordinal, held.known.live_from) == (7, 1)


async def test_what_a_peer_said_meanwhile_is_read() -> None:
    """Conversations move between workers."""
    room = await Room(ModelAnswer("a0"), ModelAnswer("a2")).open()
    peer = await Room(ModelAnswer("a1"), world=room.world, bus=room.bus).open()
    await room.answer("q0")
    await peer.answer("q1")
    await room.answer("q2")

    assert _heard(room) == ["q0", "a0", "q1", "a1", "q2"]


async def test_what_a_peer_compacted_meanwhile_is_not_read_twice() -> None:
    """The summary stands for the old rows; what this worker remembers of them is of no use."""
    manner = with_manner(compaction=CompactionManner(threshold=1000, min_messages=2))
    room = await Room(ModelAnswer("a0"), ModelAnswer("a2"), manner=manner).open()
    script = (ModelAnswer("a1", usage=Usage(input=2000)), ModelAnswer("in short"))
    peer = await Room(*script, world=room.world, bus=room.bus, manner=manner).open()
    await room.answer("q0")
    await peer.answer("q1")
    assert next(iter(room.world.tables.sessions.values())).summary == "in short"
    await room.answer("q2")

    assert _heard(room) == ["[The conversation goes on below.]", "a1", "q2"]
    first = room.model.requests[-1].messages[0]
    assert first["role"] == "user"
    assert "in short" in str(first["content"])


async def test_a_reset_is_a_new_history() -> None:
    """What was said before is not read any more."""
    room = await Room(ModelAnswer("a0"), ModelAnswer("a1")).open()
    await room.answer("q0")
    await room.world.inbox.reset(CONVERSATION, UUID(int=7), source="http", sender="anna")
    await room.answer("q1")

    assert _heard(room) == ["q1"]


async def test_a_run_that_was_dropped_is_not_remembered() -> None:
    """As if never said."""
    room = await Room(ModelAnswer("a0"), ValueError("a bug"), ModelAnswer("a2")).open()
    for text in ("q0", "q1", "q2"):
        await room.answer(text)

    assert _heard(room) == ["q0", "a0", "q2"]


async def test_a_history_that_is_pushed_out_during_a_claim_is_read_whole() -> None:
    """Another conversation may need the room just then; the claim has already counted on what was there."""
    room = await Room(*[ModelAnswer(f"a{number}") for number in range(3)]).open()
    await room.answer("q0")
    histories = Histories(1)  # holds nothing for longer than it is used
    held = room.histories.lend(CONVERSATION)
    assert held is not None
    room.histories = histories
    histories.keep(CONVERSATION, held)
    assert histories.lend(CONVERSATION) is None  # pushed out before the claim: everything is fetched
    await room.answer("q1")
    assert _heard(room) == ["q0", "a0", "q1"]


async def test_a_history_lent_to_a_claim_can_not_be_pushed_out() -> None:
    """Else the claim would bring the new rows only, and the old ones would be gone."""
    room = await Room(ModelAnswer("a0"), ModelAnswer("b0"), ModelAnswer("a1")).open()
    room.histories = Histories(1500)
    await room.answer("q0")
    lent = room.histories.lend(CONVERSATION)
    assert lent is not None
    await room.world.accept(new_run("other " * 20, conversation="cli"))
    await room.serve("cli")

    assert len(lent.rows) == 1
    assert lent.known.ordinal == 1
    room.histories.keep(CONVERSATION, lent)
    await room.answer("q1")
    assert _heard(room) == ["q0", "a0", "q1"]


def test_the_least_recently_used_history_is_forgotten_first() -> None:
    """Memory is bounded."""
    histories = Histories(100)
    for name in ("a", "b", "c"):
        histories.keep(name, _held(40))
    assert histories.lend("a") is None
    b = histories.lend("b")
    assert b is not None
    histories.keep("b", b)
    histories.keep("d", _held(40))
    assert histories.lend("c") is None
    assert histories.lend("b") is not None


@pytest.mark.parametrize(("rows", "characters"), [(2, 50), (24, 300), (10, 5000)])
def test_the_limit_is_memory_and_not_characters(rows: int, characters: int) -> None:
    """Short messages take six times their text: whoever sets 64 MB does not want 400."""
    limit = 2_000_000
    histories = Histories(limit)
    gc.collect()
    tracemalloc.start()
    for number in range(4 * limit // (rows * (characters + 500))):
        histories.keep(f"http:key:sender{number}", _read(number, rows, characters))
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert limit / 2 < taken < limit * 1.1


def _read(number: int, rows: int, characters: int) -> Remembered:
    """As a claim brings it."""
    history = Remembered(UUID(int=number), 1, rows, [], [], 0)
    said: tuple[Message, ...] = (
        {"role": "user", "content": "x" * characters, "received_at": "2026-11-22T05:00:00Z"},
        {"role": "assistant", "text": "y" * characters, "tool_calls": []},
    )
    for ordinal in range(1, rows + 1):
        add_row(history, StoredMessage(ordinal, UUID(int=number), orjson.loads(orjson.dumps(said[ordinal % 2]))))
    return history


def _held(size: int) -> Remembered:
    return Remembered(UUID(int=1), 1, 1, [], [], size)
