"""Which skills fit a message: the scores that the formula was published with."""

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.skill_match import LEAST, SkillIndex, words

SKILLS = [
    ("git-flow", "Advanced git process guidance", ["git", "vcs"]),
    ("docker-ops", "Container lifecycle help", ["docker"]),
    ("node-setup", "Install packages and run node", ["node"]),
]

WORDS = ["git", "node", "run", "docker", "packages", "help", "the", "of", "Git-Flow", "x", "é"]
text_of_words = st.lists(st.sampled_from(WORDS), max_size=12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("advanced git rebase", [("git-flow", 6.3076)]),
        ("run node tests", [("node-setup", 8.0405)]),
        ("write a poem", []),
        ("Advanced GIT, rebase! advanced", [("git-flow", 6.3076)]),
    ],
)
def test_scores_are_the_golden_ones(text: str, expected: list[tuple[str, float]]) -> None:
    """To four digits; case, punctuation and saying a word twice change nothing."""
    assert [(each.name, round(each.score, 4)) for each in SkillIndex(SKILLS).scores(text)] == expected


def test_a_part_of_a_name_or_tag_counts_a_little() -> None:
    """Either way round: `dock` is known as a word of a description, and is a part of `docker`."""
    index = SkillIndex([("docker-ops", "Help", ["dockerfile"]), ("harbour", "Every dock", [])])
    score = {each.name: each.score for each in index.scores("dock")}
    assert score["docker-ops"] == pytest.approx(log(3) * (0.5 + 0.3))
    assert score["harbour"] == pytest.approx(log(3) * 2.0 / 2)


def test_words_that_say_nothing_are_dropped() -> None:
    """Two letters and stop words would match everything."""
    assert words("What is the best WAY_to go-there, über?") == ["best", "way", "über"]


@given(text_of_words)
def test_what_is_listed_is_above_the_least_and_in_order(asked: list[str]) -> None:
    """The best first, equals by name, so that every worker shows the same."""
    found = SkillIndex([*SKILLS, ("git-two", "Advanced git process guidance", ["git", "vcs"])]).scores(" ".join(asked))
    assert all(each.score > LEAST for each in found)
    assert found == sorted(found, key=lambda each: (-each.score, each.name))


@given(text_of_words, st.permutations(SKILLS))
def test_the_order_of_words_and_skills_does_not_matter(
    asked: list[str], skills: list[tuple[str, str, list[str]]]
) -> None:
    """Folders are read in any order."""
    one = {each.name: each.score for each in SkillIndex(SKILLS).scores(" ".join(asked))}
    other = {each.name: each.score for each in SkillIndex(skills).scores(" ".join(reversed(asked)))}
    assert one == pytest.approx(other)
