"""Which skills a run works by, and what they leave it of its tools."""

from uuid import UUID

import pytest

from services.agent_worker.rules.prompt import ContextFiles, Situation, system_blocks
from services.agent_worker.rules.skills_in_use import (
    SkillsShown,
    allowed_tools,
    asked_text,
    loaded_names,
    skills_shown,
)
from shared.domain.chat import Message, ToolCall
from shared.domain.effect import ToolSpec
from shared.domain.run import StoredMessage
from shared.domain.skill import Skill, SkillBook, book_of
from tests.builders import NOON, said

SITUATION = Situation(NOON, "Lucy", "http", "full", "anna", (), 50)
LOAD = ToolSpec("load_skill", "Reads a skill.", {})


def skill(name: str, description: str = "Does it", *, tools: tuple[str, ...] | None = None, folder: str = "") -> Skill:
    return Skill(name, description, f"How to {name}.", f"skills/{name}/SKILL.md", folder, (), tools)


def load(id: str, name: str) -> ToolCall:
    return {"id": id, "name": "load_skill", "arguments": {"name": name}}


def fifty() -> SkillBook:
    return book_of([skill(f"brew-{number:02}", f"Brew tea number{number}") for number in range(50)], [])


def texts(shown: SkillsShown, *tools: ToolSpec) -> dict[str, str]:
    blocks = system_blocks(ContextFiles([], []), tools, SITUATION, skills=shown)
    return {block["tier"]: block["text"] for block in blocks}


def test_fifty_skills_are_all_named_and_three_stand_there_in_full() -> None:
    """Progressive disclosure: a body costs tokens, and most are not wanted."""
    found = texts(skills_shown(fifty(), "brew tea", always_on=()), LOAD)
    assert sum(f"- **brew-{number:02}**: " in found["semi_stable"] for number in range(50)) == 50
    assert found["semi_stable"].count("How to") == 0
    assert found["dynamic"].count("--- Skill: ") == found["dynamic"].count("How to") == 3


def test_the_catalogue_is_the_same_to_the_byte_whatever_is_asked() -> None:
    """The provider's cache holds it; what fits one message comes behind that."""
    one = texts(skills_shown(fifty(), "brew number7", always_on=["brew-01"]), LOAD)
    other = texts(skills_shown(fifty(), "nothing of that", always_on=["brew-01"]), LOAD)
    assert one["stable"] == other["stable"]
    assert one["semi_stable"] == other["semi_stable"]
    assert one["dynamic"] != other["dynamic"]


def test_a_skill_that_is_always_there_takes_no_place_of_those_that_fit() -> None:
    """And is not said twice; one that does not exist is left out."""
    shown = skills_shown(fifty(), "brew-01 tea", always_on=["brew-01", "gone", "brew-01"])
    assert [each.name for each in shown.always] == ["brew-01"]
    assert len(shown.matched) == 3
    assert shown.always[0] not in shown.matched
    assert "--- Skill: brew-01 ---\nHow to brew-01." in texts(shown)["semi_stable"]


def test_the_hint_at_the_tool_stands_there_only_with_the_tool() -> None:
    """A model must not be sent to what it does not have."""
    assert "load_skill" in texts(SkillsShown([skill("tea")]), LOAD)["semi_stable"]
    assert texts(SkillsShown([skill("tea")]))["semi_stable"] == "--- Skills ---\n- **tea**: Does it"


def test_a_skill_with_files_says_where_they_lie() -> None:
    """Its text names them by their place beside it."""
    shown = SkillsShown(matched=[skill("tea", folder="skills/tea")])
    assert texts(shown)["dynamic"].endswith("How to tea.\n\n(Files of this skill: skills/tea/)")


def test_tools_are_cut_to_the_union_of_what_skills_declare() -> None:
    """One that declares nothing takes part without restricting; the way to further skills stays."""
    shown = SkillsShown(matched=[skill("a", tools=("read",)), skill("b", tools=("web_fetch",)), skill("c")])
    may = allowed_tools(shown, [skill("d", tools=("exec",))])
    assert may is not None
    assert [name for name in ("read", "web_fetch", "exec", "write", "load_skill") if may(name)] == [
        "read", "web_fetch", "exec", "load_skill",
    ]  # fmt: skip


def test_nothing_is_cut_where_no_skill_says_anything_of_tools() -> None:
    """An always-on skill alone restricts nothing, but what it needs it keeps beside others."""
    always = [skill("a", tools=("message",))]
    assert allowed_tools(SkillsShown(matched=[skill("b")], always=always), []) is None
    may = allowed_tools(SkillsShown(matched=[skill("b", tools=())], always=always), [])
    assert may is not None
    assert (may("message"), may("read"), may("load_skill")) == (True, False, True)


@pytest.mark.parametrize(
    ("written", "tool"),
    [("Read", "read"), ("WebFetch", "web_fetch"), ("Bash(git:*)", "exec"), ("mcp__files__list", "mcp__files__list")],
)
def test_names_that_other_agents_use_are_understood(written: str, tool: str) -> None:
    """Their skills come unchanged."""
    may = allowed_tools(SkillsShown(matched=[skill("a", tools=(written,))]), [])
    assert may is not None
    assert may(tool)
    assert not may("write")


def test_what_a_run_has_loaded_is_read_from_what_it_said() -> None:
    """An heir of the run finds the same; a call that failed or has no result yet loaded nothing."""
    history: list[Message] = [
        said("", load("c1", "tea"), load("c2", "no")),
        {
            "role": "tool_results",
            "results": [
                {"tool_use_id": "c1", "content": "How"},
                {"tool_use_id": "c2", "content": "Error: none", "is_error": True},
            ],
        },
        said("", load("c3", "later")),
    ]
    assert loaded_names(history) == ["tea"]


def test_words_are_matched_and_files_are_not() -> None:
    """Of what the run was asked at first: neither other runs, nor a document, nor what was added on the way."""
    run, other = UUID(int=1), UUID(int=2)
    blob = {"type": "blob", "text": "a document on git"}
    bodies: list[tuple[UUID, object]] = [
        (other, {"role": "user", "content": "old"}),
        (run, {"role": "user", "content": [{"type": "text", "text": "brew"}, blob]}),
        (run, {"role": "user", "content": "tea"}),
        (run, said("well")),
        (run, {"role": "user", "content": "steered"}),
    ]
    rows = [StoredMessage(ordinal, of, body) for ordinal, (of, body) in enumerate(bodies)]  # type: ignore[arg-type]
    assert asked_text(rows, run) == "brew\ntea"
