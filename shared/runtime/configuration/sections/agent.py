"""Who the agent is and what it says of itself: ``[agent]``, ``[user]``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from shared.runtime.configuration.kinds import Count, Name, Zone


def _operational_only() -> Mapping[str, "TierFiles"]:
    return {"operational": TierFiles(stable=("SOUL.md", "AGENTS.md", "IDENTITY.md"), semi_stable=("HEARTBEAT.md",))}


@dataclass(frozen=True, slots=True)
class TierFiles:
    """``[agent.context.tiers] <tier>``: the workspace files that a message of this tier is answered with."""

    stable: tuple[str, ...] = ()
    semi_stable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """``[agent.context]``: which workspace files make the system prompt, and how large it may become."""

    stable: tuple[str, ...] = ("SOUL.md", "AGENTS.md", "USER.md", "IDENTITY.md", "TOOLS.md")
    semi_stable: tuple[str, ...] = ("MEMORY.md",)
    tiers: Mapping[str, TierFiles] = field(default_factory=_operational_only)
    max_system_tokens: Count = 0


@dataclass(frozen=True, slots=True)
class Skills:
    """``[agent.skills]``: where skills lie inside the workspace, and which are always in the prompt.

    ``extra_dirs`` are further folders of skills; a later one overrides what has the same name before it.
    """

    dir: str = "skills"
    always_on: tuple[str, ...] = ()
    extra_dirs: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Agent:
    """``[agent]``. ``id`` empty means ``name``; no ``workspace`` means ``workspace`` in the data directory."""

    name: Name = "Lucyd"
    workspace: Path | None = None
    id: str = ""
    client_id: str = ""
    strategy: Literal["tool_use", "single_shot"] = "tool_use"
    context: Context = field(default_factory=Context)
    skills: Skills = field(default_factory=Skills)


@dataclass(frozen=True, slots=True)
class User:
    """``[user]``: the person whom the agent belongs to."""

    name: str = ""
    timezone: Zone = "UTC"
