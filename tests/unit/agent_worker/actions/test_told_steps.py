"""What a worker tells is in its steps, too: whoever asks Postgres hears what whoever asked Redis has heard."""

import asyncio
import itertools
from collections.abc import Sequence

import pytest

from shared.errors import GiveUp, TryLater
from shared.messages.run_events import RunEvent, id_order
from shared.ports.model import ModelAnswer
from tests.builders import call
from tests.faults import Interrupted
from tests.unit.agent_worker.actions.workroom import Room

WRITES = 5


def story() -> list[ModelAnswer | BaseException | asyncio.Event]:
    """Two rounds of tools, then an answer that is cut short by its length."""
    rounds = [
        ModelAnswer("Let me look.", tool_calls=[call("read", "c1")], stop_reason="tool_use"),
        ModelAnswer("And do it.", tool_calls=[call("exec", "c2"), call("read", "c3")], stop_reason="tool_use"),
    ]
    return [*rounds, ModelAnswer("All is done.", stop_reason="refusal")]


def shown(events: Sequence[RunEvent]) -> list[tuple[str, str, str]]:
    """What stands on a screen: id, type, text; what a new attempt drops is left out, and pieces of text are joined."""
    kept: list[RunEvent] = []
    for event in events:
        if "keep" in event.data:
            kept = [one for one in kept if id_order(one.id) <= id_order(event.data["keep"])]
        kept.append(event)
    lines: list[tuple[str, str, str]] = []
    for event in kept:
        text = str(event.data.get("text", ""))
        if event.type == "delta" and lines and lines[-1][1] == "delta":
            lines[-1] = (event.id, "delta", lines[-1][2] + text)
        else:
            lines.append((event.id, event.type, text))
    return lines


async def heard_from_both(room: Room) -> tuple[Sequence[RunEvent], Sequence[RunEvent]]:
    """What Redis has of the only run, and what Postgres has, both without the end."""
    (run,) = room.world.tables.runs
    told = await room.bus.read(run, after="0-1", limit=10_000)
    stored = await room.world.transcripts.told(run, after="0-1")
    assert stored.ended is not None
    assert told[-1].id == stored.ended.terminal
    return told[:-1], stored.events


async def test_steps_hold_what_was_told() -> None:
    """Tools, text, and the notice at the end."""
    room = await Room(*story(), pieces=3).open()
    await room.answer()
    told, stored = await heard_from_both(room)
    assert shown(stored) == shown(told)
    assert {"attempt", "delta", "tool_started", "tool_finished"} <= {event.type for event in stored}
    for before, event in itertools.pairwise(told):
        assert event.after == before.id


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("write", range(1, WRITES + 1))
async def test_whichever_write_a_worker_dies_at_both_tell_the_same(write: int, when: str) -> None:
    """What it told and did not store is dropped by its heir's ``keep``, wherever one has read it."""
    room = await Room(*story(), pieces=3).open()
    await room.accept()
    setattr(room.runs, f"die_{when}", write)
    with pytest.raises(Interrupted):
        await room.serve()
    await room.desk.outlet.flush()
    heir = await room.heir(ModelAnswer("Once more."))
    await heir.serve()
    (run,) = room.world.tables.runs
    stored = await room.world.transcripts.told(run, after="0-1")
    told = [event for event in await room.bus.read(run, after="0-1", limit=10_000) if not event.terminal]
    assert stored.ended is not None
    assert shown(stored.events) == shown(told)


@pytest.mark.parametrize("fault", [GiveUp("no such model"), ValueError("our own")])
async def test_a_run_that_fails_stores_what_it_told(fault: Exception) -> None:
    """The reason stands in a notice; who comes late reads it all the same."""
    room = await Room(story()[0], fault).open()
    await room.answer()
    told, stored = await heard_from_both(room)
    assert shown(stored) == shown(told)


async def test_the_words_before_a_retry_are_a_part_of_it() -> None:
    """A client that stands among them must find its way."""
    room = await Room(TryLater("busy"), ModelAnswer("Here."), pieces=2).open()
    await room.accept()
    serving = asyncio.create_task(room.serve())
    while not serving.done():
        room.clock.advance(1.0)
        await asyncio.sleep(0)
    told, stored = await heard_from_both(room)
    assert "retry" in {event.type for event in stored}
    assert shown(stored) == shown(told)
