"""A run that waits for runs of its own: what it stores, what it tells, what it may spend, and when it goes on."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from services.agent_worker.actions.mind_children import mind_children
from services.agent_worker.edge.toolbox import LocalToolbox
from services.agent_worker.edge.tools.sessions_spawn import SessionsSpawnTool
from services.agent_worker.ports import ToolUse
from services.agent_worker.rules.run_loop import COST_NOTICE, Limits
from services.agent_worker.rules.spawning import SpawnTerms
from shared.adapters.inmemory.rows import RunRow
from shared.domain.chat import ToolCall, ToolResult
from shared.domain.effect import EffectClass, ToolSpec
from shared.domain.money import Usage
from shared.ports.model import ModelAnswer
from tests.builders import CONVERSATION
from tests.faults import Interrupted
from tests.unit.agent_worker.actions.workroom import Room, Tools, asks, contents, until, with_manner

TERMS = SpawnTerms("primary", deny=frozenset({"sessions_spawn"}))
DEAR = Usage(input=1000, output=1000)
"""0.018 at the rates of these tests."""


CLASSES: Mapping[str, EffectClass] = {"read": "read", "exec": "once"}


class SpawningTools(Tools):
    """The box of a test, with the real ``sessions_spawn`` in it, and scopes that hold."""

    @property
    def terms(self) -> SpawnTerms:
        """What the operator lets sub-agents do."""
        return TERMS

    def specs(self) -> Sequence[ToolSpec]:
        return [*Tools.specs(self), self._box().specs()[0]]

    async def use(self, call: ToolCall, use: ToolUse) -> ToolResult:
        if call["name"] == "sessions_spawn":
            return await self._box().use(call, use)
        if use.scope is not None and call["name"] not in use.scope:
            return {"tool_use_id": call["id"], "content": "Error: Unknown tool", "is_error": True}
        return await Tools.use(self, call, use)

    def _box(self) -> LocalToolbox:
        names = [*self.classes, "sessions_spawn"]
        tool = SessionsSpawnTool(self.terms, roles=["primary"], offered=lambda: names, output_limit=1000)
        return LocalToolbox([tool], output_truncation=1000, max_parallel=5)


class NestingTools(SpawningTools):
    """The same of an operator who lets sub-agents have their own."""

    @property
    def terms(self) -> SpawnTerms:
        """Nothing is denied to them."""
        return SpawnTerms("primary")


def spawns(*prompts: str, beside: Sequence[str] = (), usage: Usage | None = None, **arguments: Any) -> ModelAnswer:
    """An answer that asks for sub-agents, and for other tools beside them."""
    calls: list[ToolCall] = [
        {"id": f"s{index}", "name": "sessions_spawn", "arguments": {"prompt": prompt, **arguments}}
        for index, prompt in enumerate(prompts)
    ]
    calls += [{"id": f"c{index}", "name": name, "arguments": {"x": index}} for index, name in enumerate(beside)]
    return ModelAnswer("", tool_calls=calls, stop_reason="tool_use", usage=usage or Usage())


async def opened(
    *script: ModelAnswer | BaseException | asyncio.Event, tools: Tools | None = None, **manner: Any
) -> Room:
    tools = tools or SpawningTools(CLASSES)
    return await Room(*script, tools=tools, manner=with_manner(**manner)).open()


def row_of(room: Room, run: UUID) -> RunRow:
    return room.world.tables.runs[run]


def children_of(room: Room, run: UUID) -> list[RunRow]:
    found = [row for row in room.world.tables.children.values() if row.parent == run]
    return [room.world.tables.runs[row.run] for row in sorted(found, key=lambda row: row.call_index)]


async def told(room: Room, run: UUID, *types: str) -> list[Mapping[str, Any]]:
    return [event.data for event in await room.events(run) if event.type in types]


async def test_a_run_waits_for_its_child_and_goes_on_with_its_answer() -> None:
    """No owner and no slot while it waits; the child is told and paid as any run."""
    room = await opened(spawns("look it up"), ModelAnswer("forty-two"), ModelAnswer("It is 42."))
    run = await room.accept("what is it?")
    await room.serve()
    (child,) = children_of(room, run)
    assert (row_of(room, run).state, row_of(room, run).wait_reason) == ("waiting", "child")
    assert room.world.tables.conversations[CONVERSATION].owner is None
    assert child.conversation in {wake.conversation for wake in room.bus.waiting}

    await room.serve(child.conversation)
    await room.serve()
    assert (await room.outcome(run))["reply"] == "It is 42."
    assert contents(room) == ["forty-two"]
    rows = [row for row in room.world.tables.messages if row.session == row_of(room, run).session]
    assert [row.body["role"] for row in rows] == ["user", "assistant", "tool_results", "assistant"]
    assert await room.every_call_is_booked()
    assert len(await told(room, run, "tool_started")) == 1
    (finished,) = await told(room, run, "tool_finished")
    assert (finished["name"], finished["ok"], finished["preview"]) == ("sessions_spawn", True, "forty-two")


async def test_a_child_sees_its_task_and_nothing_else() -> None:
    """A preamble of its own, its tools, and no word of the conversation."""
    room = await opened(spawns("look it up", tools=["read"]), ModelAnswer("x"), ModelAnswer("y"))
    run = await room.accept("a secret")
    await room.serve()
    await room.serve(children_of(room, run)[0].conversation)
    request = room.model.requests[1]
    assert [message["role"] for message in request.messages] == ["user"]
    assert "secret" not in str(request)
    system = " ".join(block["text"] for block in request.system)
    assert "You are a sub-agent" in system
    assert "kind (minimal)" in system
    assert [tool.name for tool in request.tools] == ["read"]


async def test_other_calls_of_the_round_are_not_run_again() -> None:
    """Also those that only read: their results are kept while the run waits."""
    room = await opened(spawns("x", beside=["read", "exec"]), ModelAnswer("done"), ModelAnswer("so it is"))
    run = await room.accept()
    await room.serve()
    await room.serve(children_of(room, run)[0].conversation)
    await room.serve()
    assert (await room.outcome(run))["reply"] == "so it is"
    assert contents(room) == ["done", "read did 0", "exec did 1"]
    assert sorted(name for name, _ in room.tools.done) == ["exec", "read"]
    assert len(await told(room, run, "tool_finished")) == 3


async def test_a_refused_one_does_not_make_its_run_wait() -> None:
    """An error is a result like any other."""
    room = await opened(spawns("x", model="giant"), ModelAnswer("then not"))
    outcome = await room.answer()
    assert outcome["reply"] == "then not"
    assert contents(room) == ["Error: Unknown model 'giant'. Available models: primary"]
    assert room.world.tables.children == {}


async def test_an_heir_of_a_run_that_spawned_waits_for_the_same_child() -> None:
    """Its worker died between the act and the wait."""
    room = await opened(spawns("x", beside=["exec"]))
    room.tools.doing["exec"] = _dies
    run = await room.accept()
    with pytest.raises(Interrupted):
        await room.serve()
    (child,) = children_of(room, run)
    assert row_of(room, run).state == "running"

    heir = await room.heir(ModelAnswer("found"), ModelAnswer("Well."))
    await heir.serve()
    assert (row_of(room, run).state, children_of(room, run)) == ("waiting", [child])
    await heir.serve(child.conversation)
    await heir.serve()
    assert (await heir.outcome(run))["reply"] == "Well."
    assert contents(heir)[0] == "found"
    assert "in doubt" in contents(heir)[1]


async def _dies(arguments: Mapping[str, Any]) -> str:
    raise Interrupted


async def test_the_money_of_a_message_is_one_for_all_who_work_for_it() -> None:
    """The child stops at its parent's limit, and the parent asks nobody any more."""
    room = await opened(
        spawns("x", usage=DEAR),
        *(replace(asks("read"), usage=DEAR) for _ in range(2)),
        limits=Limits(max_turns=50, max_cost=Decimal("0.05")),
    )
    run = await room.accept()
    await room.serve()
    (child,) = children_of(room, run)
    await room.serve(child.conversation)
    assert (await room.outcome(child.id))["notices"] == [COST_NOTICE]
    await room.serve()
    assert (await room.outcome(run))["notices"] == [COST_NOTICE]
    assert len(room.model.requests) == 3


async def test_a_child_whose_money_is_spent_does_not_begin() -> None:
    """Siblings may have used it up while it waited for a slot."""
    room = await opened(
        spawns("x", "y", usage=DEAR),
        ModelAnswer("dear", usage=Usage(input=20_000)),
        limits=Limits(max_turns=50, max_cost=Decimal("0.05")),
    )
    run = await room.accept()
    await room.serve()
    first, second = children_of(room, run)
    await room.serve(first.conversation)
    await room.serve(second.conversation)
    assert (await room.outcome(second.id))["reply"] == COST_NOTICE
    assert len(room.model.requests) == 2


async def test_children_side_by_side_pass_the_limit_by_one_call_at_most() -> None:
    """Each sees the same money left, and nobody knows yet what a call that is out will have cost. Who waits long for
    that gives its slot up, leaves nothing open, and comes back by itself."""
    call, dear = asyncio.Event(), ModelAnswer("dear", usage=DEAR)
    limits = Limits(max_turns=50, max_cost=Decimal("0.05"))
    room = await opened(spawns("x", "y", "z", usage=DEAR), call, dear, dear, limits=limits)
    run = await room.accept()
    await room.serve()
    first, *others = children_of(room, run)
    serving = asyncio.create_task(room.serve(first.conversation))
    await until(lambda: len(room.model.requests) == 2)
    for child in others:
        await room.serve(child.conversation)
        assert (child.state, child.wait_reason) == ("waiting", "retry")
    assert {row.run for row in room.world.tables.reservations.values() if not row.settled} == {first.id}
    assert len(room.model.requests) == 2
    call.set()
    await serving
    room.clock.advance(10)
    for child in others:
        await room.serve(child.conversation)
    replies = [(await room.outcome(child.id))["reply"] for child in (first, *others)]
    assert replies == ["dear", "dear", COST_NOTICE]
    assert sum(row.cost for row in room.world.tables.costs.values()) == Decimal("0.054")
    assert await room.every_call_is_booked()


async def test_children_of_an_ended_run_are_found_by_the_sweep() -> None:
    """One that nobody has in hand ends at once; its parent does not go on."""
    room = await opened(spawns("x"))
    run = await room.accept()
    await room.serve()
    await room.cancel(run)
    await mind_children(room.desk)
    (child,) = children_of(room, run)
    assert (child.state, row_of(room, run).state) == ("cancelled", "cancelled")
    await room.serve()
    assert len(room.model.requests) == 1


async def test_a_parent_whose_childs_end_nobody_collected_is_woken_by_the_sweep() -> None:
    """The worker may die right after it stored that end."""
    room = await opened(spawns("x"))
    run = await room.accept()
    await room.serve()
    (child,) = children_of(room, run)
    await room.cancel(child.id)
    assert row_of(room, run).wake_at is None
    await mind_children(room.desk)
    assert row_of(room, run).wake_at is not None
    heir = await room.peer(ModelAnswer("A pity."))
    await heir.serve()
    assert (await heir.outcome(run))["reply"] == "A pity."
    assert contents(heir) == ["Error: the sub-agent was cancelled: It was cancelled."]


async def test_a_tool_hears_for_whom_a_sub_agent_works() -> None:
    """Also one of a sub-agent's own: memory goes by who is spoken to, and nobody speaks in a child's conversation."""
    heard: list[str] = []

    class Listening(NestingTools):
        async def use(self, call: ToolCall, use: ToolUse) -> ToolResult:
            heard.append(use.works_in)
            return await NestingTools.use(self, call, use)

    room = await opened(spawns("x"), spawns("y"), asks("read"), ModelAnswer("z"), tools=Listening(CLASSES))
    run = await room.accept()
    await room.serve()
    (child,) = children_of(room, run)
    await room.serve(child.conversation)
    (grandchild,) = children_of(room, child.id)
    await room.serve(grandchild.conversation)
    assert heard == ["", CONVERSATION, CONVERSATION]


async def test_a_sub_agent_may_have_its_own_where_the_operator_lets_it() -> None:
    """The answer comes up step by step, and each waits without a slot."""
    room = await opened(
        spawns("ask somebody"),
        spawns("what is it?"),
        ModelAnswer("forty-two"),
        ModelAnswer("They say forty-two."),
        ModelAnswer("It is 42."),
        tools=NestingTools(CLASSES),
    )
    run = await room.accept()
    await room.serve()
    (child,) = children_of(room, run)
    await room.serve(child.conversation)
    (grandchild,) = children_of(room, child.id)
    assert (row_of(room, run).state, child.state) == ("waiting", "waiting")
    for conversation in (grandchild.conversation, child.conversation, CONVERSATION):
        await room.serve(conversation)
    assert (await room.outcome(run))["reply"] == "It is 42."
    assert contents(room) == ["forty-two", "They say forty-two."]


async def test_what_must_be_asked_first_is_nothing_for_a_child() -> None:
    """Also where the operator wants that only since it was spawned: nobody could give the answer it would wait for."""
    room = await opened(spawns("x"))
    run = await room.accept()
    await room.serve()
    (child,) = children_of(room, run)
    later = await Room(
        asks("exec"),
        ModelAnswer("could not"),
        tools=room.tools,
        world=room.world,
        manner=with_manner(ask_first=frozenset({"exec"})),
    ).open()
    await later.serve(child.conversation)
    assert (await later.outcome(child.id))["reply"] == "could not"
    assert later.tools.done == []
