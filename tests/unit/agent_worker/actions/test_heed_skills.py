"""A run works by the skills that fit it, and with no other tools than these leave it."""

from dataclasses import dataclass, replace

import pytest

from services.agent_worker.actions.desk import Manner, SkillManner
from services.agent_worker.ports import ToolUse
from shared.domain.chat import ToolCall, ToolResult
from shared.domain.skill import Skill, SkillBook, book_of
from shared.ports.model import ModelAnswer, ModelRequest
from tests.faults import Interrupted
from tests.unit.agent_worker.actions.test_sub_agents import SpawningTools, children_of, spawns
from tests.unit.agent_worker.actions.workroom import Room, Tools, contents

MANNER = Manner(retry_base=2.0, skills=SkillManner(tiers=frozenset({"full", "operational"})))


class ScopedTools(Tools):
    """The box of a test, whose scopes hold as those of the real one do."""

    async def use(self, call: ToolCall, use: ToolUse) -> ToolResult:
        if use.scope is not None and call["name"] not in use.scope:
            return {"tool_use_id": call["id"], "content": f"Error: Unknown tool '{call['name']}'", "is_error": True}
        return await super().use(call, use)


@dataclass
class Shelf:
    """Skills that a test may exchange."""

    book: SkillBook


def shelf(*skills: Skill) -> Shelf:
    return Shelf(book_of(skills, []))


def skill(name: str, *tools: str) -> Skill:
    return Skill(name, f"How {name} is done", f"Do {name} so.", f"skills/{name}/SKILL.md", allowed_tools=tools or None)


async def opened(skills: Shelf, *script: ModelAnswer | BaseException) -> Room:
    tools = ScopedTools({"read": "read", "write": "read", "exec": "once", "load_skill": "read"})
    room = await Room(*script, tools=tools, manner=MANNER).open()
    room.desk = replace(room.desk, skills=skills)
    return room


def uses(name: str, id: str = "c0", /, **arguments: str) -> ModelAnswer:
    calls: list[ToolCall] = [{"id": id, "name": name, "arguments": arguments}]
    return ModelAnswer("", tool_calls=calls, stop_reason="tool_use")


def offered(request: ModelRequest) -> list[str]:
    return [tool.name for tool in request.tools]


def prompt(request: ModelRequest) -> str:
    return "\n".join(block["text"] for block in request.system)


async def test_a_restricted_skill_that_fits_cuts_the_tools_and_the_cut_holds() -> None:
    """The model is offered the union; a call beside it reaches nothing and gets an error result."""
    skills = shelf(skill("brewing", "read"), skill("grinding", "write"), skill("washing", "exec"))
    room = await opened(skills, uses("exec"), ModelAnswer("done"))
    await room.answer("do the brewing and the grinding")
    assert [offered(request) for request in room.model.requests] == [["read", "write", "load_skill"]] * 2
    assert contents(room) == ["Error: Unknown tool 'exec'"]
    assert room.tools.done == []


async def test_a_message_that_no_skill_fits_has_all_tools() -> None:
    """And the catalogue, without a body."""
    room = await opened(shelf(skill("brewing", "read")), ModelAnswer("hi"))
    await room.answer("hello there")
    (request,) = room.model.requests
    assert offered(request) == ["read", "write", "exec", "load_skill"]
    assert "- **brewing**: How brewing is done" in prompt(request)
    assert "Do brewing so." not in prompt(request)


async def test_a_skill_loaded_on_the_way_cuts_the_tools_of_the_turns_after_it() -> None:
    """The next one that is loaded adds its own: the union of all in use."""
    skills = shelf(skill("brewing", "read"), skill("grinding", "write"))
    room = await opened(
        skills, uses("load_skill", "c1", name="brewing"), uses("load_skill", "c2", name="grinding"), ModelAnswer("done")
    )
    await room.answer("hello there")
    assert [offered(request) for request in room.model.requests] == [
        ["read", "write", "exec", "load_skill"],
        ["read", "load_skill"],
        ["read", "write", "load_skill"],
    ]


async def test_an_heir_goes_on_with_the_tools_that_were_left() -> None:
    """What was loaded is read from what is stored: a worker's death gives no tool back."""
    skills = shelf(skill("brewing", "read"))
    room = await opened(skills, uses("load_skill", name="brewing"), Interrupted())
    run = await room.accept("hello there")
    with pytest.raises(Interrupted):
        await room.serve()
    heir = await room.heir(uses("exec", "c9"), ModelAnswer("done"))
    heir.desk = replace(heir.desk, skills=skills)
    await heir.serve()
    assert [offered(request) for request in heir.model.requests] == [["read", "load_skill"]] * 2
    assert contents(room)[-1] == "Error: Unknown tool 'exec'"
    assert (await room.outcome(run))["reply"] == "done"


async def test_a_scope_is_narrowed_and_never_widened() -> None:
    """A sub-agent that may only read and write gets no `exec` from a skill that allows it."""
    tools = SpawningTools({"read": "read", "write": "read", "exec": "once"})
    script = spawns("brewing", tools=["read", "write"]), uses("exec"), ModelAnswer("no"), ModelAnswer("done")
    room = await Room(*script, tools=tools, manner=MANNER).open()
    room.desk = replace(room.desk, skills=shelf(skill("brewing", "read", "exec")))
    run = await room.accept("hello there")
    await room.serve()
    await room.serve(children_of(room, run)[0].conversation)
    assert [offered(request) for request in room.model.requests[1:3]] == [["read"]] * 2
    assert "Do brewing so." in prompt(room.model.requests[1])
    assert "exec" not in [name for name, _ in tools.done]


async def test_a_message_of_a_tier_without_files_has_no_skills() -> None:
    """As little as possible is what it was asked for."""
    room = await opened(shelf(skill("brewing", "read")), ModelAnswer("hi"))
    await room.answer("brewing", tier="minimal")
    (request,) = room.model.requests
    assert "brewing" not in prompt(request)
    assert offered(request) == ["read", "write", "exec", "load_skill"]


async def test_the_skills_of_an_attempt_stay_whatever_happens_to_their_files() -> None:
    """The prompt of the turns is the same to the byte, or the provider's cache would be lost on the way."""
    skills = shelf(skill("brewing"))
    room = await opened(skills, uses("read"), ModelAnswer("done"))

    async def edited(_: object) -> str:
        skills.book = SkillBook()
        return "read"

    room.tools.doing["read"] = edited
    await room.answer("brewing")
    one, other = room.model.requests
    assert one.system == other.system
