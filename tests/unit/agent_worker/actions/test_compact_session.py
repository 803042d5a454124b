"""Long conversations are said in fewer words, and nothing is lost by it."""

from services.agent_worker.actions.desk import CompactionManner
from shared.domain.money import Usage
from shared.domain.run import RunKind
from shared.errors import ModelRejected
from shared.ports.model import ModelAnswer
from tests.builders import CONVERSATION, call
from tests.unit.agent_worker.actions.workroom import Room, with_manner

TIGHT = with_manner(agent_name="Lucy", compaction=CompactionManner(threshold=10**9, max_tokens=77))
COMPACT: RunKind = "compact"


async def _after(room: Room, messages: int) -> Room:
    """That many questions were answered."""
    room.model.then(*[ModelAnswer(f"a{number}") for number in range(messages)])
    for number in range(messages):
        await room.answer(f"q{number}")
    return room


def _live(room: Room) -> list[str]:
    session = next(iter(room.world.tables.sessions.values()))
    rows = [row for row in room.world.tables.messages if row.ordinal >= session.live_from and not row.dropped]
    return [str(row.body.get("content", row.body.get("text"))) for row in rows]


async def test_two_thirds_are_summarised_and_the_rest_stays() -> None:
    """The last part of a talk is remembered word for word."""
    room = await _after(await Room(manner=TIGHT).open(), 3)
    room.model.then(ModelAnswer("  they counted  "))
    outcome = await room.answer("", kind=COMPACT)

    assert (outcome["state"], outcome["compacted"], outcome["reply"]) == ("done", 4, "")
    assert _live(room) == ["q2", "a2"]
    request = room.model.requests[-1]
    (block,) = request.system
    assert "Lucy" in block["text"]
    assert "77 tokens" in block["text"]
    (asked,) = request.messages
    assert asked["role"] == "user"
    assert asked["content"] == "User: q0\n\nAssistant: a0\n\nUser: q1\n\nAssistant: a1"
    assert request.tools == ()
    assert await room.every_call_is_booked()


async def test_the_next_message_reads_the_summary_first() -> None:
    """And a second compaction builds on the first."""
    room = await _after(await Room(manner=TIGHT).open(), 3)
    room.model.then(ModelAnswer("they counted"), ModelAnswer("a3"), ModelAnswer("and went on"))
    await room.answer("", kind=COMPACT)
    await room.answer("q3")

    first, *rest = room.model.requests[-1].messages
    assert first["role"] == "user"
    assert "they counted" in str(first["content"])
    assert [message["role"] for message in rest] == ["user", "assistant", "user"]
    await room.answer("", kind=COMPACT)
    told = room.model.requests[-1].messages[0]
    assert told["role"] == "user"
    assert str(told["content"]).startswith("Summary of what came before:\nthey counted\n\nUser: q2")
    session = next(iter(room.world.tables.sessions.values()))
    assert (session.summary, session.compaction_count) == ("and went on", 2)


async def test_a_call_is_never_parted_from_its_result() -> None:
    """A history that begins with results is refused by every provider."""
    room = await Room(manner=TIGHT).open()
    room.model.then(ModelAnswer("", tool_calls=[call()], stop_reason="tool_use"), ModelAnswer("a0"))
    await room.answer("q0")
    room.model.then(ModelAnswer("in short"))
    await room.answer("", kind=COMPACT)

    session = next(iter(room.world.tables.sessions.values()))
    kept = [row.body["role"] for row in room.world.tables.messages if row.ordinal >= session.live_from]
    assert kept == ["assistant"]


async def test_a_summary_that_fails_leaves_all_as_it_was() -> None:
    """Better a full window than a lost memory."""
    for script in (ModelRejected("too long"), ModelAnswer("  ")):
        room = await _after(await Room(manner=TIGHT).open(), 3)
        room.model.then(script, ModelAnswer("a3"))
        outcome = await room.answer("", kind=COMPACT)
        assert outcome["state"] == "failed"
        assert outcome["error"]
        assert len(_live(room)) == 6
        session = next(iter(room.world.tables.sessions.values()))
        assert (session.summary, session.live_from, session.compaction_count) == (None, 1, 0)
        await room.answer("q3")
        assert len(room.model.requests[-1].messages) == 7
        assert await room.every_call_is_booked()


async def test_a_short_session_is_left_alone() -> None:
    """There is nothing to gain; the money set aside is given back."""
    room = await _after(await Room(manner=TIGHT).open(), 1)
    outcome = await room.answer("", kind=COMPACT)

    assert (outcome["state"], outcome["compacted"]) == ("done", 0)
    assert len(room.model.requests) == 1
    assert not await room.world.open_reservations()


async def test_a_summary_is_not_told_to_the_person_piece_by_piece() -> None:
    """It is the agent's own memory."""
    room = await _after(await Room(manner=TIGHT).open(), 3)
    room.model.then(ModelAnswer("secret summary"))
    run = await room.accept("", kind=COMPACT)
    await room.serve(CONVERSATION)

    assert [event.type for event in await room.events(run)] == ["attempt", "done"]


async def test_a_summary_has_its_own_limit_and_no_thinking() -> None:
    """It is an errand of known length; the model's own limit can be a hundred times as dear."""
    room = await _after(await Room(manner=TIGHT).open(), 3)
    room.model.then(ModelAnswer("they counted"))
    await room.answer("", kind=COMPACT)
    assert room.model.requests[-1].max_tokens == 77


async def test_a_compaction_that_failed_is_not_bought_again_with_every_message() -> None:
    """It most likely fails again; it is tried once more when the session has grown by a tenth."""
    low = with_manner(compaction=CompactionManner(threshold=1000, min_messages=2))

    def full(tokens: int) -> ModelAnswer:
        return ModelAnswer("a", usage=Usage(input=tokens))

    room = await Room(manner=low).open()
    room.model.then(full(2000), ModelAnswer(""), full(2050), full(2300), ModelAnswer("they talked"))
    for question in ("one", "two", "three"):
        await room.answer(question)
    session = next(iter(room.world.tables.sessions.values()))
    kinds = [(run.kind, run.state) for run in sorted(room.world.tables.runs.values(), key=lambda run: run.ordinal)]
    assert kinds == [
        ("message", "done"),
        ("compact", "failed"),
        ("message", "done"),
        ("message", "done"),
        ("compact", "done"),
    ]
    assert (session.summary, session.compact_above) == ("they talked", 0)
