"""load_skill: the whole of a skill, and what there is when the name is wrong."""

from pathlib import Path
from uuid import UUID

import pytest

from services.agent_worker.edge.tools.load_skill import LoadSkillTool
from services.agent_worker.ports import ToolFailed, ToolUse
from shared.adapters.skill_folders import SkillFolders, SkillShelf
from shared.adapters.system_clock import SystemClock
from shared.domain.skill import SkillPlace

USE = ToolUse(UUID(int=1), UUID(int=2), "cli", "1:1:0")


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    return tmp_path / "skills"


@pytest.fixture
def tool(skills: Path) -> LoadSkillTool:
    place = SkillPlace(skills, skills.parent, "skills")
    return LoadSkillTool(SkillShelf(SkillFolders([place]), SystemClock()))


def write(skills: Path, name: str, text: str) -> Path:
    (skills / name).mkdir(parents=True)
    (skills / name / "SKILL.md").write_text(text)
    return skills / name


async def test_the_whole_text_is_given(tool: LoadSkillTool, skills: Path) -> None:
    """Without its front matter; with the place of its files, where it has some. It was written a moment ago."""
    write(skills, "tea", "---\nname: brewing\n---\n# Tea\n\nBoil.\n")
    assert await tool.run({"name": " brewing "}, USE) == "# Tea\n\nBoil."
    (write(skills, "coffee", "Grind.") / "grind.py").touch()
    assert await tool.run({"name": "coffee"}, USE) == "Grind.\n\n(Files of this skill: skills/coffee/)"


async def test_a_wrong_name_is_answered_with_the_right_ones(tool: LoadSkillTool, skills: Path) -> None:
    """The model corrects itself in one turn."""
    with pytest.raises(ToolFailed, match=r"^Skill 'tee' not found\. Available skills: none$"):
        await tool.run({"name": "tee"}, USE)
    write(skills, "tea", "Boil.")
    write(skills, "coffee", "Grind.")
    with pytest.raises(ToolFailed, match=r"^Skill 'tee' not found\. Available skills: coffee, tea$"):
        await tool.run({"name": "tee"}, USE)
