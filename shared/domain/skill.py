"""Skills: folders with a ``SKILL.md`` that tells the agent how something is done."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from shared.domain.skill_match import Scored, SkillIndex

MOST_MATCHED = 3
"""So many of those that fit a message are shown in full."""


@dataclass(frozen=True, slots=True)
class SkillPlace:
    """A folder of skills. Nothing is read that lies, links followed, outside ``within``; ``told_as`` names it."""

    path: Path
    within: Path
    told_as: str


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill. ``place`` is its file as an operator names it; ``folder`` is set where other files lie beside it.

    ``allowed_tools`` are the tools that it means to do with; ``None`` where it says nothing of them.
    """

    name: str
    description: str
    body: str
    place: str
    folder: str = ""
    tags: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] | None = None
    version: str = ""
    author: str = ""


@dataclass(frozen=True, slots=True)
class BrokenSkill:
    """What lies where a skill is looked for and can't be used, and why."""

    place: str
    reason: str


@dataclass(frozen=True)
class SkillBook:
    """All skills as they were at one moment, by name, and what was passed over."""

    skills: Sequence[Skill] = ()
    broken: Sequence[BrokenSkill] = field(default=())

    def find(self, name: str) -> Skill | None:
        """The skill of that name."""
        return self._by_name.get(name)

    def scores(self, text: str) -> list[Scored]:
        """All that fit the text, the best first."""
        return self._index.scores(text)

    @cached_property
    def _by_name(self) -> Mapping[str, Skill]:
        return {skill.name: skill for skill in self.skills}

    @cached_property
    def _index(self) -> SkillIndex:
        return SkillIndex([(skill.name, skill.description, skill.tags) for skill in self.skills])


Shown = Literal["always", "yes", "no"]


@dataclass(frozen=True, slots=True)
class Fit:
    """How well a skill fits a message, and whether it is shown in full with it: ``always`` whatever the message is."""

    name: str
    score: float
    shown: Shown


def fits(book: SkillBook, text: str, *, always_on: Collection[str]) -> list[Fit]:
    """All that fit, the best first; those that are always shown take no place of the others."""
    found: list[Fit] = []
    left = MOST_MATCHED
    for scored in book.scores(text):
        shown: Shown = "always" if scored.name in always_on else "yes" if left > 0 else "no"
        left -= shown == "yes"
        found.append(Fit(scored.name, scored.score, shown))
    return found


def missing(book: SkillBook, always_on: Collection[str]) -> list[str]:
    """Names that are to be shown always, and that no skill has."""
    return [name for name in always_on if book.find(name) is None]


def book_of(found: Sequence[Skill], broken: Sequence[BrokenSkill]) -> SkillBook:
    """One skill of each name: the one that was found last."""
    by_name = {skill.name: skill for skill in found}
    return SkillBook([by_name[name] for name in sorted(by_name)], list(broken))
