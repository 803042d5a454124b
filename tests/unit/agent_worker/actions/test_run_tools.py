"""Acts on the world: told, stored as they come, and never silently repeated."""

import asyncio
from typing import get_args

import pytest

from services.agent_worker.ports import ToolUse
from services.agent_worker.rules.effects import InDoubt
from shared.domain.chat import BlobBlock, ToolCall, ToolResult
from shared.domain.effect import EffectClass
from shared.ids import new_id
from shared.ports.model import ModelAnswer
from tests.builders import call
from tests.faults import Interrupted
from tests.unit.agent_worker.actions.workroom import Room, Tools


def asks(*names: str) -> ModelAnswer:
    calls = [call(name, f"c{index}", x=index) for index, name in enumerate(names)]
    return ModelAnswer("", tool_calls=calls, stop_reason="tool_use")


def _contents(room: Room) -> list[str]:
    return [one["content"] for row in room.history() if row["role"] == "tool_results" for one in row["results"]]


async def _crash(room: Room) -> None:
    with pytest.raises(Interrupted):
        await room.serve()


@pytest.mark.parametrize("effect", get_args(EffectClass))
async def test_a_crash_after_the_act_and_before_its_result(effect: EffectClass) -> None:
    """What only reads, carries a key or has its result with it runs again; what may have happened once is in doubt."""

    async def die(_: object) -> str:
        raise Interrupted

    tools = Tools({"act": effect}, doing={"act": die})
    room = await Room(asks("act"), tools=tools).open()
    run = await room.accept()
    await _crash(room)
    assert len(tools.done) == 1
    tools.doing.clear()
    heir = await room.heir(ModelAnswer("done"))
    await heir.serve()
    outcome = await heir.outcome(run)

    runs_again = effect != "once"
    assert len(tools.done) == (2 if runs_again else 1)
    assert len(set(tools.done)) == 1  # the same key, so that the other side can tell
    assert heir.all_calls_have_results()
    doubt = InDoubt("act", "c0")
    if runs_again:
        assert _contents(heir) == ["act did 0"]
        assert outcome["notices"] == []
    else:
        assert _contents(heir) == [doubt.for_model()["content"]]
        assert outcome["notices"] == [doubt.for_person()]
        (told,) = [event for event in await heir.events(run) if event.type == "in_doubt"]
        assert told.data["call_id"] == "c0"
    assert outcome["reply"] == "done"


@pytest.mark.parametrize(("verdict", "times"), [("done", 1), ("not_done", 2), ("unknown", 1)])
async def test_a_tool_that_proves_itself_is_asked_what_happened(verdict: str, times: int) -> None:
    """An edit can tell by its hashes; only where it can't, the person is troubled."""

    async def die(_: object) -> str:
        raise Interrupted

    tools = Tools({"edit": "once"}, doing={"edit": die}, proofs={"edit": {"before": "a", "after": "b"}})
    room = await Room(asks("edit"), tools=tools).open()
    run = await room.accept()
    await _crash(room)
    tools.doing.clear()
    tools.verdicts["edit"] = verdict  # type: ignore[assignment]
    heir = await room.heir(ModelAnswer("ok"))
    await heir.serve()

    assert len(tools.done) == times
    (content,) = _contents(heir)
    expected = {"done": "Done: 'edit'", "not_done": "edit did 0", "unknown": "Error: in doubt."}
    assert content.startswith(expected[verdict])
    assert bool((await heir.outcome(run))["notices"]) == (verdict == "unknown")


async def test_a_result_that_was_stored_is_used_again() -> None:
    """Of two acts the first is done; the crash in the second must not repeat it."""
    first_stored = asyncio.Event()

    async def die(_: object) -> str:
        await first_stored.wait()
        raise Interrupted

    async def quick(_: object) -> str:
        asyncio.get_running_loop().call_later(0.02, first_stored.set)
        return "quick did it"

    tools = Tools({"quick": "once", "slow": "idempotent"}, doing={"quick": quick, "slow": die})
    room = await Room(asks("quick", "slow"), tools=tools).open()
    run = await room.accept()
    await _crash(room)
    assert [len(write.results) for write in room.runs.writes] == [0, 1]  # by itself, while the other still ran
    tools.doing.clear()
    heir = await room.heir(ModelAnswer("ok"))
    await heir.serve()

    assert [name for name, _ in tools.done] == ["quick", "slow", "slow"]
    assert _contents(heir) == ["quick did it", "slow did 1"]
    assert (await heir.outcome(run))["notices"] == []


async def test_a_result_that_was_stored_by_itself_keeps_its_images() -> None:
    """The heir has never seen them, and knows of them by that row alone."""
    image: BlobBlock = {
        "type": "blob", "id": str(new_id()), "content_type": "image/png", "filename": "", "size": 3, "text": "[image]",
    }  # fmt: skip
    first_stored = asyncio.Event()

    class Camera(Tools):
        async def use(self, call: ToolCall, use: ToolUse) -> ToolResult:
            result = await super().use(call, use)
            if call["name"] == "camera":
                asyncio.get_running_loop().call_later(0.02, first_stored.set)
                result["images"] = [image]
            return result

    async def die(_: object) -> str:
        await first_stored.wait()
        raise Interrupted

    tools = Camera({"camera": "once", "slow": "idempotent"}, doing={"slow": die})
    room = await Room(asks("camera", "slow"), tools=tools).open()
    await room.accept()
    await _crash(room)
    tools.doing.clear()
    heir = await room.heir(ModelAnswer("ok"))
    await heir.serve()
    assert [name for name, _ in tools.done] == ["camera", "slow", "slow"]
    (results,) = [row["results"] for row in heir.history() if row["role"] == "tool_results"]
    assert [one.get("images") for one in results] == [[image], None]


async def test_the_last_result_goes_with_its_step() -> None:
    """A round of one tool costs two commits: the answer with the intent, and the result with the next reservation."""
    room = await Room(asks("exec"), ModelAnswer("ok")).open()
    await room.answer()

    answer, step, end = room.runs.writes
    assert [intent.tool for intent in answer.intents] == ["exec"]
    assert answer.stage == "tools"
    assert len(step.results) == 1
    assert step.reserve is not None
    assert end.ending is not None


async def test_a_tool_that_only_reads_leaves_no_intent() -> None:
    """There is nothing to be in doubt about."""
    room = await Room(asks("read"), ModelAnswer("ok")).open()
    await room.answer()

    assert all(not write.intents and not write.results for write in room.runs.writes)


async def test_what_is_in_doubt_stays_known_over_a_second_crash() -> None:
    """The sentence to the person was only in the memory of the worker that died."""

    async def die(_: object) -> str:
        raise Interrupted

    tools = Tools({"exec": "once"}, doing={"exec": die})
    room = await Room(asks("exec"), tools=tools).open()
    run = await room.accept()
    await _crash(room)
    heir = await room.heir(Interrupted())
    await _crash(heir)  # the doubt is stored with the step; the model is asked next
    third = await heir.heir(ModelAnswer("ok"))
    await third.serve()

    assert (await third.outcome(run))["notices"] == [InDoubt("exec", "c0").for_person()]
    assert len(tools.done) == 1


async def test_a_doubt_that_was_stored_alone_is_told_by_the_next_heir_too() -> None:
    """Two acts: the doubt about one was stored while the other still ran, and then the heir died as well."""
    armed = True

    async def die(_: object) -> str:
        if armed:
            await asyncio.sleep(0.02)
            raise Interrupted
        return "slow did it"

    tools = Tools({"exec": "once", "slow": "idempotent"}, doing={"exec": die, "slow": die})
    room = await Room(asks("exec", "slow"), tools=tools).open()
    run = await room.accept()
    await _crash(room)
    heir = await room.heir()
    await _crash(heir)
    armed = False
    third = await heir.heir(ModelAnswer("ok"))
    await third.serve()

    assert (await third.outcome(run))["notices"] == [InDoubt("exec", "c0").for_person()]
    assert [name for name, _ in tools.done].count("exec") == 1


@pytest.mark.parametrize("write", range(1, 6))
async def test_a_crash_around_any_write_loses_nothing_and_repeats_no_act(write: int) -> None:
    """Before the write or after it: one reply, one execution, one linear history, every call booked."""
    for where in ("die_before", "die_after"):
        script = [asks("exec"), asks("exec"), ModelAnswer("done")]
        room = await Room(*script).open()
        run = await room.accept()
        setattr(room.runs, where, write)
        await _crash(room)
        bought = len(room.model.requests)
        stored = sum(len(one.messages) > 0 and one.messages[0]["role"] == "assistant" for one in room.runs.writes)
        heir = await room.heir(*script[stored:])
        await heir.serve()

        outcome = await heir.outcome(run)
        assert (outcome["reply"], outcome["state"]) == ("done", "done")
        keys = [key for _, key in heir.tools.done]
        assert len(keys) == len(set(keys)), (where, write)
        assert heir.all_calls_have_results()
        assert heir.roles() == ["user", *["assistant", "tool_results"] * 2, "assistant"]
        # An answer that was stored is not bought again.
        assert bought + len(heir.model.requests) == 3 + (bought - stored)
        assert await room.every_call_is_booked()
        assert await heir.every_call_is_booked()


async def test_arguments_that_no_json_can_hold_break_nothing() -> None:
    """Models write any number of digits, and half of an emoji."""
    odd = call("exec", "c1", x=10**30, y="\ud83d")
    room = await Room(ModelAnswer("", tool_calls=[odd], stop_reason="tool_use"), ModelAnswer("ok")).open()
    outcome = await room.answer()

    assert (outcome["state"], outcome["reply"]) == ("done", "ok")
    assert len(room.tools.done) == 1
