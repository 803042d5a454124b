"""Skills and their scores as tables."""

from collections.abc import Collection, Sequence

from cli.rules.clean_text import one_line
from cli.rules.pieces import Piece
from cli.rules.table import Column, Table
from shared.domain.skill import Fit, Skill, SkillBook, missing

_SKILLS = (Column("Skill"), Column("Shown"), Column("Tools"), Column("File"), Column("Description"))
PATH = 1000
"""Characters of a file's place: cut, it would lead nowhere."""

_SCORES = (Column("Skill"), Column("Score", right=True), Column("Shown"))


def skills_table(skills: Sequence[Skill], always_on: Collection[str]) -> Table:
    """One line for each."""
    return Table(
        _SKILLS,
        [
            (
                one_line(skill.name),
                "always" if skill.name in always_on else "if it fits",
                "all" if skill.allowed_tools is None else one_line(", ".join(skill.allowed_tools), 40) or "none",
                one_line(skill.place, PATH),
                one_line(skill.description, 60),
            )
            for skill in skills
        ],
    )


def broken_pieces(book: SkillBook, always_on: Collection[str]) -> list[Piece]:
    """A sentence for each file that is skipped, and for each name in always_on that no skill has."""
    pieces = [Piece(f"skipped  {one_line(broken.place, PATH)}: {broken.reason}\n", "error") for broken in book.broken]
    return pieces + [
        Piece(f"missing  {one_line(name)}: named in always_on, and no skill\n", "error")
        for name in missing(book, always_on)
    ]


def scores_table(found: Sequence[Fit]) -> Table:
    """The best first."""
    return Table(_SCORES, [(one_line(each.name), f"{each.score:.4f}", each.shown) for each in found])
