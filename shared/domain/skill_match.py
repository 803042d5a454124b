"""Which skills fit a message: a score by the words that both have, rare ones counting more."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

NAME, TAGS, DESCRIPTION = 3.0, 2.5, 2.0
PART_OF_NAME, PART_OF_TAG = 0.5, 0.3
LEAST = 0.1
SHORTEST_WORD = 3
LONGEST_TEXT = 20_000
"""Characters of a message that are looked at; nobody names a skill behind that many."""

MOST_WORDS = 300
"""Of those that any skill has: what a message may cost is bounded."""

_COMMON = (
    "about above after again against all and any are aren because been before being below between both but can cannot "
    "could couldn did didn does doesn doing don down during each few for from further had hadn has hasn have haven "
    "having her here hers herself him himself his how into isn its itself just let more most mustn myself nor not now "
    "off once only other our ours ourselves out over own please same shan she should shouldn some such than that the "
    "their theirs them themselves then there these they this those through too under until use very was wasn were "
    "weren what when where which while who whom why will with won would wouldn you your yours yourself yourselves"
)
STOP_WORDS = frozenset(_COMMON.split())

_BETWEEN_WORDS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Scored:
    """How well the skill of that name fits."""

    name: str
    score: float


class SkillIndex:
    """What is known of all skills before a message comes.

    Names, descriptions and tags count, and bodies do not: a score must not depend on which bodies were read before.
    A word that a message says twice counts once.
    """

    def __init__(self, skills: Iterable[tuple[str, str, Sequence[str]]]) -> None:
        self._names: list[str] = []
        self._weights: dict[str, dict[int, float]] = {}
        self._in_names: dict[str, set[int]] = {}
        self._in_tags: dict[str, set[int]] = {}
        for name, description, tags in skills:
            self._add(name, words(name), words(" ".join(tags)), words(description))

    def scores(self, text: str) -> list[Scored]:
        """Those above ``LEAST``, the best first; equals by name."""
        asked = [word for word in dict.fromkeys(words(text[:LONGEST_TEXT])) if word in self._weights]
        found: dict[int, float] = defaultdict(float)
        for word in asked[:MOST_WORDS]:
            rarity = log(1 + len(self._names) / len(self._weights[word]))
            for skill, weight in self._weights[word].items():
                found[skill] += rarity * weight
            for skill in _holding_a_part(word, self._in_names):
                found[skill] += rarity * PART_OF_NAME
            for skill in _holding_a_part(word, self._in_tags):
                found[skill] += rarity * PART_OF_TAG
        scored = (Scored(self._names[skill], score) for skill, score in found.items() if score > LEAST)
        return sorted(scored, key=lambda each: (-each.score, each.name))

    def _add(self, name: str, in_name: Sequence[str], in_tags: Sequence[str], in_description: Sequence[str]) -> None:
        skill = len(self._names)
        self._names.append(name)
        for said, worth in ((in_name, NAME), (in_tags, TAGS), (in_description, DESCRIPTION)):
            for word in said:
                weights = self._weights.setdefault(word, {})
                weights[skill] = weights.get(skill, 0.0) + worth / len(said)
        for word in in_name:
            self._in_names.setdefault(word, set()).add(skill)
        for word in in_tags:
            self._in_tags.setdefault(word, set()).add(skill)


def words(text: str) -> list[str]:
    """Lower case, cut at white space and punctuation, without short words and those that say nothing."""
    found = _BETWEEN_WORDS.split(text.lower())
    return [word for word in found if len(word) >= SHORTEST_WORD and word not in STOP_WORDS]


def _holding_a_part(word: str, known: Mapping[str, set[int]]) -> set[int]:
    """The skills with a word that is a part of this one, or the other way round."""
    return {skill for other, skills in known.items() if word in other or other in word for skill in skills}
