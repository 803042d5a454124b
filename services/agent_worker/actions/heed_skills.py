"""Let a run work by the skills that fit it, and with no other tools than they leave it."""

from services.agent_worker.actions.attempt import Attempt
from services.agent_worker.rules.skills_in_use import (
    SkillsShown,
    allowed_tools,
    asked_text,
    loaded_names,
    skills_shown,
)


def pick_skills(attempt: Attempt) -> SkillsShown:
    """Those that the prompt of this attempt shows; they stay the same for all of it, whatever their files do."""
    desk, claim = attempt.desk, attempt.claim
    terms = desk.manner.skills
    if claim.child is None and claim.tier not in terms.tiers:
        return SkillsShown()  # as such a message has none of the workspace's files
    return skills_shown(desk.skills.book, asked_text(attempt.rows, claim.run), always_on=terms.always_on)


def heed_skills(attempt: Attempt, shown: SkillsShown) -> None:
    """Narrow the tools to what the skills in use leave, those included that were loaded so far.

    What was loaded is read from what the run has said, so an heir comes to the same result.
    """
    book = attempt.desk.skills.book
    loaded = [skill for name in loaded_names(attempt.said) if (skill := book.find(name)) is not None]
    attempt.left_by_skills = allowed_tools(shown, loaded)
