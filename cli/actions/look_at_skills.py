"""Look at the skills that lie in the folders now."""

from collections.abc import Collection

from cli.edge.screen import Screen
from cli.rules.skills_view import broken_pieces, scores_table, skills_table
from shared.domain.skill import SkillBook, fits

NONE = "There are no skills; docs/skills.md says how to write one."
NOTHING_FITS = "No skill fits this message; the agent sees their names."


def list_skills(book: SkillBook, screen: Screen, *, always_on: Collection[str]) -> None:
    """All of them, and what is skipped."""
    if book.skills:
        screen.table(skills_table(book.skills, always_on))
    else:
        screen.say(NONE)
    screen.show(broken_pieces(book, always_on))


def match_skills(book: SkillBook, text: str, screen: Screen, *, always_on: Collection[str]) -> None:
    """How well each fits, and which are shown."""
    if found := fits(book, text, always_on=always_on):
        screen.table(scores_table(found))
    else:
        screen.say(NOTHING_FITS if book.skills else NONE)
