"""Which skills fit a message: a score by the words that both have, rare ones counting more."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log

NAME, TAGS, DESCRIPTION = 3.0, 2.5, 2.0
PART_OF_NAME, PART_OF_TAG = 0.5, 0.3
LEAST = 0.1
SHORTEST_WORD = 3
LONGEST_TEXT = 20_000
"""Characters of a message that are looked at; nobody names a skill behind that many."""

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


@dataclass(frozen=True, slots=True)
class _Words:
    name: Sequence[str]
    tags: Sequence[str]
    description: Sequence[str]


class SkillIndex:
    """What is known of all skills before a message comes.

    Names, descriptions and tags count, and bodies do not: a score must not depend on which bodies were read before.
    A word that a message says twice counts once.
    """

    def __init__(self, skills: Iterable[tuple[str, str, Sequence[str]]]) -> None:
        self._skills = [
            (name, _Words(words(name), words(" ".join(tags)), words(description))) for name, description, tags in skills
        ]
        in_skills = Counter(word for _, said in self._skills for word in {*said.name, *said.tags, *said.description})
        self._rarity: Mapping[str, float] = {
            word: log(1 + len(self._skills) / count) for word, count in in_skills.items()
        }

    def scores(self, text: str) -> list[Scored]:
        """Those above ``LEAST``, the best first; equals by name."""
        asked = [word for word in dict.fromkeys(words(text[:LONGEST_TEXT])) if word in self._rarity]
        scored = (Scored(name, self._score(asked, said)) for name, said in self._skills)
        return sorted((each for each in scored if each.score > LEAST), key=lambda each: (-each.score, each.name))

    def _score(self, asked: Sequence[str], said: _Words) -> float:
        return sum(self._rarity[word] * _weight(word, said) for word in asked)


def words(text: str) -> list[str]:
    """Lower case, cut at white space and punctuation, without short words and those that say nothing."""
    found = _BETWEEN_WORDS.split(text.lower())
    return [word for word in found if len(word) >= SHORTEST_WORD and word not in STOP_WORDS]


def _weight(word: str, said: _Words) -> float:
    weight = NAME * _share(word, said.name) + TAGS * _share(word, said.tags)
    weight += DESCRIPTION * _share(word, said.description)
    weight += PART_OF_NAME * _is_part(word, said.name) + PART_OF_TAG * _is_part(word, said.tags)
    return weight


def _share(word: str, field: Sequence[str]) -> float:
    return field.count(word) / len(field) if field else 0.0


def _is_part(word: str, field: Sequence[str]) -> bool:
    return any(word in other or other in word for other in field)
