"""Which skills a run works by, and what they leave it of its tools."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from shared.domain.chat import Message
from shared.domain.run import StoredMessage
from shared.domain.skill import MOST_MATCHED, Skill, SkillBook

LOAD_SKILL = "load_skill"

_OTHER_NAMES = {"bash": "exec", "shell": "exec", "task": "sessionsspawn"}
"""What skills of other agents call tools that are here by another name."""


@dataclass(frozen=True, slots=True)
class SkillsShown:
    """What the prompt says of skills: ``all`` by name, the bodies that are always there, and those that fit."""

    all: Sequence[Skill] = ()
    always: Sequence[Skill] = ()
    matched: Sequence[Skill] = ()


def skills_shown(book: SkillBook, text: str, *, always_on: Collection[str]) -> SkillsShown:
    """What to show with a message. A skill that is always there takes no place of those that fit."""
    always = [skill for name in dict.fromkeys(always_on) if (skill := book.find(name)) is not None]
    there = {skill.name for skill in always}
    fitting = [skill for each in book.scores(text) if (skill := book.find(each.name)) and skill.name not in there]
    return SkillsShown(book.skills, always, fitting[:MOST_MATCHED])


def asked_text(rows: Sequence[StoredMessage], run: UUID) -> str:
    """What the run was asked before it began, in words; what came as a file is left out."""
    said: list[str] = []
    for row in rows:
        if row.run != run:
            continue
        if row.body["role"] != "user":
            break
        content = row.body["content"]
        said += (
            [content] if isinstance(content, str) else [block["text"] for block in content if block["type"] == "text"]
        )
    return "\n".join(said)


def loaded_names(said: Sequence[Message]) -> list[str]:
    """The skills that a run has loaded by its tool."""
    asked: dict[str, str] = {}
    loaded: list[str] = []
    for message in said:
        if message["role"] == "assistant":
            calls = message.get("tool_calls", [])
            asked |= {call["id"]: str(call["arguments"].get("name")) for call in calls if call["name"] == LOAD_SKILL}
        elif message["role"] == "tool_results":
            ids = [result["tool_use_id"] for result in message["results"] if not result.get("is_error")]
            loaded += [asked[each] for each in ids if each in asked]
    return loaded


def allowed_tools(shown: SkillsShown, loaded: Sequence[Skill]) -> Callable[[str], bool] | None:
    """Whether a tool may be used, by its name; ``None`` where no skill in use says anything of tools.

    What is always there narrows nothing by itself, or nothing else could ever be done; but what it needs it keeps.
    """
    declared = [skill.allowed_tools for skill in (*shown.matched, *loaded) if skill.allowed_tools is not None]
    if not declared:
        return None
    kept = [skill.allowed_tools for skill in shown.always if skill.allowed_tools is not None]
    names = {_folded(name) for allowed in (*declared, *kept) for name in allowed}
    return lambda name: name == LOAD_SKILL or _folded(name) in names


def _folded(name: str) -> str:
    """Skills of others write ``WebFetch`` or ``Bash(git:*)``; patterns in parentheses can't be told from the rest."""
    plain = "".join(letter for letter in name.split("(")[0].lower() if letter.isalnum())
    return _OTHER_NAMES.get(plain, plain)
