"""Reading a skill whose name stands in the catalogue."""

from collections.abc import Mapping
from typing import Any, Protocol

from services.agent_worker.ports import ToolFailed, ToolUse
from services.agent_worker.rules.prompt import skill_text
from shared.domain.effect import ToolSpec
from shared.domain.skill import SkillBook

_SPEC = ToolSpec(
    name="load_skill",
    description="Read a skill of the catalogue in full. Do so before you begin what it is for.",
    input_schema={
        "type": "object",
        "properties": {"name": {"type": "string", "description": "Its name, as the catalogue has it."}},
        "required": ["name"],
    },
    effect="read",
)


class Shelf(Protocol):
    """Where skills lie."""

    @property
    def book(self) -> SkillBook:
        """All that are known."""
        ...

    async def look(self) -> SkillBook:
        """All that are there now."""
        ...


class LoadSkillTool:
    """The body of a skill."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    @property
    def spec(self) -> ToolSpec:
        """How the tool is offered."""
        return _SPEC

    async def run(self, arguments: Mapping[str, Any], use: ToolUse) -> str:
        """All of it. A name that is not known is looked for once more, for it may have been written just now."""
        name = arguments["name"].strip()
        skill = self._shelf.book.find(name)
        if skill is None:
            book = await self._shelf.look()
            skill = book.find(name)
            if skill is None:
                there = ", ".join(each.name for each in book.skills) or "none"
                raise ToolFailed(f"Skill '{name[:100]}' not found. Available skills: {there}")
        return skill_text(skill)
