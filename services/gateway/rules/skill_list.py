"""What may be asked of skills, and what is answered."""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from services.gateway.rules.chat_request import SOMETHING, Filled
from services.gateway.rules.reply_shapes import Named, Shape
from services.gateway.rules.request_body import RequestQuery
from shared.domain.skill import Fit, Shown, SkillBook, missing

LONGEST_MESSAGE = 4000
"""A head of a request has room for that many characters, however they are written."""

_SAYS = f'"q" must have something in it, and at most {LONGEST_MESSAGE} characters'


class MatchQuery(RequestQuery):
    """A message, as a person would write it."""

    q: Annotated[Filled, Field(max_length=LONGEST_MESSAGE, json_schema_extra={"pattern": SOMETHING.pattern})] = Field(
        description="The message.", examples=["Please write the invoice for May."]
    )

    says: ClassVar[Mapping[str, str]] = {"q": _SAYS}


class SkillShape(Shape):
    """A skill. ``allowed_tools`` is null where it declares none, and then it cuts no tools."""

    name: str
    description: str
    path: str
    enabled: Literal[True]
    shown: Literal["always", "if_it_fits"]
    tags: list[str]
    allowed_tools: list[str] | None
    version: str
    author: str


class SkippedShape(Shape):
    """What lies where skills are, and is none."""

    path: str
    reason: str


class SkillsReply(Named):
    """All skills by name. ``missing`` are names of ``always_on`` that no skill has."""

    skills: list[SkillShape]
    skipped: list[SkippedShape]
    missing: list[str]


class FitShape(Shape):
    """How well a skill fits, and whether the agent is shown it in full."""

    name: str
    score: float
    shown: Shown


class MatchReply(Named):
    """Those that fit, the best first."""

    skills: list[FitShape]


def skills_body(book: SkillBook, always_on: Collection[str]) -> dict[str, Any]:
    """The reply of GET /api/v1/skills."""
    return {
        "skills": [
            {
                "name": skill.name,
                "description": skill.description,
                "path": skill.place,
                "enabled": True,
                "shown": "always" if skill.name in always_on else "if_it_fits",
                "tags": list(skill.tags),
                "allowed_tools": None if skill.allowed_tools is None else list(skill.allowed_tools),
                "version": skill.version,
                "author": skill.author,
            }
            for skill in book.skills
        ],
        "skipped": [{"path": broken.place, "reason": broken.reason} for broken in book.broken],
        "missing": missing(book, always_on),
    }


def match_body(found: Sequence[Fit]) -> dict[str, Any]:
    """The reply of GET /api/v1/skills/match."""
    return {"skills": [{"name": each.name, "score": round(each.score, 4), "shown": each.shown} for each in found]}
