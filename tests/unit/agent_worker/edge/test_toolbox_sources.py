"""Tools that come and go, and runs that may use some of them only."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from services.agent_worker.edge.toolbox import LocalToolbox
from services.agent_worker.ports import Tool, ToolUse
from shared.domain.effect import EffectClass, ToolSpec
from shared.errors import LostClaim, TryLater


class Named:
    """Says where it comes from."""

    def __init__(self, name: str, origin: str, effect: EffectClass = "read", fault: Exception | None = None) -> None:
        self.spec = ToolSpec(name, "Say it.", {"type": "object", "properties": {}}, effect)
        self._origin = origin
        self._fault = fault

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        if self._fault:
            raise self._fault
        return self._origin


class Shelf:
    """A source that is filled by hand."""

    def __init__(self) -> None:
        self.held: list[Tool] = []

    def tools(self) -> Sequence[Tool]:
        return self.held


def box(*tools: Tool, sources: Sequence[Shelf] = ()) -> LocalToolbox:
    return LocalToolbox(tools, output_truncation=1000, max_parallel=4, sources=sources)


async def said(toolbox: LocalToolbox, name: str, use: ToolUse) -> str:
    return (await toolbox.use({"id": "c", "name": name, "arguments": {}}, use))["content"]


async def test_a_tool_that_has_come_can_be_used_and_one_that_is_gone_cannot(use: ToolUse) -> None:
    """A plugin is changed, a server dies: the worker goes on."""
    shelf = Shelf()
    toolbox = box(Named("own", "house"), sources=[shelf])
    assert toolbox.spec("late") is None
    shelf.held.append(Named("late", "shelf"))
    assert [spec.name for spec in toolbox.specs()] == ["own", "late"]
    assert await said(toolbox, "late", use) == "shelf"
    shelf.held.clear()
    assert await said(toolbox, "late", use) == "Error: Unknown tool 'late'. Available tools: own"


async def test_a_name_that_is_taken_keeps_its_tool(use: ToolUse) -> None:
    """Nothing that comes later slips in under a name that people trust."""
    first, second = Shelf(), Shelf()
    first.held, second.held = [Named("own", "first"), Named("b", "first")], [Named("b", "second")]
    toolbox = box(Named("own", "house"), sources=[first, second])
    assert await said(toolbox, "own", use) == "house"
    assert await said(toolbox, "b", use) == "first"
    assert [spec.name for spec in toolbox.specs()] == ["own", "b"]


async def test_a_tool_outside_the_scope_of_a_run_is_not_touched(use: ToolUse) -> None:
    """A model may name what it was not offered."""
    toolbox = box(Named("a", "a"), Named("b", "b"))
    narrow = replace(use, scope=("b",))
    assert await said(toolbox, "a", narrow) == "Error: Unknown tool 'a'. Available tools: b"
    assert await said(toolbox, "b", narrow) == "b"


@pytest.mark.parametrize("fault", [LostClaim("cli"), TryLater("away")])
async def test_whether_an_act_was_stored_is_for_its_run_to_find_out(use: ToolUse, fault: Exception) -> None:
    """As a result it would say that it failed, and perhaps it did not."""
    with pytest.raises(type(fault)):
        await said(box(Named("act", "x", "local", fault)), "act", use)
    assert await said(box(Named("look", "x", "read", fault)), "look", use) == "Error: Tool 'look' failed"
