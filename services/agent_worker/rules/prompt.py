"""The system prompt: blocks by how long they stay the same, so that providers can cache the first two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from services.agent_worker.rules.history import stamp
from services.agent_worker.rules.skills_in_use import LOAD_SKILL, SkillsShown
from shared.domain.chat import SystemBlock
from shared.domain.effect import ToolSpec
from shared.domain.run import Source
from shared.domain.skill import Skill

FRAMING: Mapping[str, str] = {
    "system": (
        "Session type: automated infrastructure. This message was sent by a machine, not a person; "
        "your reply is not delivered to anybody."
    ),
    "http": "Session type: HTTP API integration. Your reply is returned in the HTTP response.",
}


SUBAGENT = (
    "You are a sub-agent: another agent has given you one task, which is the message below. You see nothing of its "
    "conversation and can ask nobody. Do the task with the tools you have. Your last answer is handed back as it is, "
    "so make it complete and say plainly what you could not do."
)


@dataclass(frozen=True, slots=True)
class ContextFiles:
    """File contents by name, in the order in which they are shown."""

    stable: Sequence[tuple[str, str]]
    semi_stable: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Situation:
    """What changes from message to message. ``subagent``: another run has asked for this one."""

    now: datetime
    agent_name: str
    source: Source
    tier: str
    contact: str
    silent_tokens: Sequence[str]
    max_turns: int
    subagent: bool = False


def system_blocks(
    files: ContextFiles,
    tools: Sequence[ToolSpec],
    situation: Situation,
    *,
    skills: SkillsShown | None = None,
    max_tokens: int = 0,
) -> list[SystemBlock]:
    """Stable, semi-stable and dynamic blocks, empty ones left out.

    The catalogue of skills is the same for all messages and stands with what changes now and then; bodies that fit
    this one message come last. ``max_tokens`` (0: no cap) trims the dynamic and then the semi-stable block at 4
    characters a token, never the stable one.
    """
    shown = skills or SkillsShown()
    stable = "\n\n".join(part for part in (_sections(files.stable), _tool_list(tools)) if part)
    parts = (_sections(files.semi_stable), _bodies(shown.always), _catalogue(shown.all, tools))
    semi_stable = "\n\n".join(part for part in parts if part)
    dynamic = "\n\n".join(part for part in (_dynamic(situation), _bodies(shown.matched)) if part)
    if max_tokens > 0:
        left = max(0, max_tokens * 4 - len(stable))
        semi_stable, dynamic = _trim(semi_stable, dynamic, left)
    blocks: list[SystemBlock] = [
        {"tier": "stable", "text": stable},
        {"tier": "semi_stable", "text": semi_stable},
        {"tier": "dynamic", "text": dynamic},
    ]
    return [block for block in blocks if block["text"]]


def _sections(files: Sequence[tuple[str, str]]) -> str:
    return "\n\n".join(f"--- {name} ---\n{text.strip()}" for name, text in files if text.strip())


def _tool_list(tools: Sequence[ToolSpec]) -> str:
    lines = [f"- {tool.name}: {tool.description.split('. ')[0].rstrip('.')}." for tool in tools]
    return "\n".join(["--- Tools ---", *lines]) if lines else ""


def skill_text(skill: Skill) -> str:
    """A skill in full, as the model reads it."""
    where = f"\n\n(Files of this skill: {skill.folder}/)" if skill.folder else ""
    return f"{skill.body}{where}"


def _bodies(skills: Sequence[Skill]) -> str:
    return "\n\n".join(f"--- Skill: {skill.name} ---\n{skill_text(skill)}" for skill in skills)


def _catalogue(skills: Sequence[Skill], tools: Sequence[ToolSpec]) -> str:
    if not skills:
        return ""
    lines = ["--- Skills ---"]
    if any(tool.name == LOAD_SKILL for tool in tools):
        lines.append(f"Before you do what one of them is for, read it with {LOAD_SKILL}, unless it is here in full.")
    return "\n".join([*lines, *(_entry(skill) for skill in skills)])


def _entry(skill: Skill) -> str:
    tags = f" (tags: {', '.join(skill.tags)})" if skill.tags else ""
    return f"- **{skill.name}**: {skill.description}{tags}"


def _dynamic(situation: Situation) -> str:
    lines = [f"Current time: {stamp(situation.now)[1:-1]}", f"You are {situation.agent_name}."]
    if situation.subagent:
        lines.append(SUBAGENT)
    elif situation.contact:
        lines.append(f"You are talking with: {situation.contact}")
    if not situation.subagent and (framing := FRAMING.get(situation.source)):
        lines.append(framing)
    if situation.tier != "full" and not situation.subagent:
        lines.append(f"Context tier: {situation.tier}")
    lines.append("Text in [system: ...] brackets comes from the runtime and not from the person.")
    if situation.silent_tokens and not situation.subagent:
        tokens = " or ".join(situation.silent_tokens)
        lines.append(f"To send nothing, reply with exactly {tokens}; such a reply is not delivered.")
    lines.append(f"You may use at most {situation.max_turns} turns for one message.")
    return "\n".join(lines)


def _trim(semi_stable: str, dynamic: str, left: int) -> tuple[str, str]:
    """The dynamic block gives way first."""
    kept_dynamic = dynamic[: max(0, left - len(semi_stable))]
    kept_semi_stable = semi_stable[: max(0, left - len(kept_dynamic))]
    return kept_semi_stable, kept_dynamic
