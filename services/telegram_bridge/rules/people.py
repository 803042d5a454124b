"""Who may write to the agent, and what they are called."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

LONGEST_LABEL = 64
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffd]+")


@dataclass(frozen=True, slots=True)
class People:
    """``allowed`` are numeric ids, empty means everybody; ``contacts`` are the operator's names for some of them."""

    allowed: frozenset[int] = frozenset()
    contacts: Mapping[str, int] = field(default_factory=dict)

    def may_write(self, sender: int) -> bool:
        """Names are labels: only the number decides."""
        return not self.allowed or sender in self.allowed

    def label(self, sender: int, *, username: str, first_name: str) -> str:
        """The operator's name for this person, else the one that the person chose, else the number."""
        known = next((name for name, number in self.contacts.items() if number == sender), "")
        for name in (known, username, first_name):
            if fit := " ".join(_UNFIT.sub(" ", name).split())[:LONGEST_LABEL].strip():
                return fit
        return str(sender)
