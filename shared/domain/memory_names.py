"""Names of entities and attributes in one writing, and the names that a question may mean."""

import re
import unicodedata

LONGEST_NAME = 120
LONGEST_VALUE = 2000
MOST_WORDS = 200
"""Of a question, that are looked at as names."""

_GAPS = re.compile(r"[\s_]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_ENDS = "?.,;:!\"'`()[]{}<>\u201c\u201d\u2018\u2019\u201e\u00ab\u00bb\u00bf\u00a1"
_POSSESSIVE = re.compile(r"['\u2019]s\b")


def memory_name(text: str) -> str:
    """Lower case, with underscores for blanks; empty when nothing is left."""
    plain = _CONTROL.sub(" ", unicodedata.normalize("NFKC", text).lower())
    return _GAPS.sub("_", plain).strip("_")


def names_in(question: str) -> frozenset[str]:
    """One, two and three words in a row, as entities are called."""
    text = _POSSESSIVE.sub("", unicodedata.normalize("NFKC", question).lower())
    words = [word for each in text.split()[:MOST_WORDS] if (word := memory_name(each.strip(_ENDS)))]
    return frozenset(
        name
        for size in (1, 2, 3)
        for start in range(len(words) - size + 1)
        if len(name := "_".join(words[start : start + size])) <= LONGEST_NAME
    )
