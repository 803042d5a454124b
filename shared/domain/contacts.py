"""The operator's names for chats: whom the agent, schedules and callers over HTTP may mean by a name."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Contact:
    """Somebody by the name that the operator gave, and the key of the conversation with them."""

    name: str
    place: str


@dataclass(frozen=True, slots=True)
class Contacts:
    """Names and keys of conversations. What people call themselves decides nothing."""

    chats: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_telegram(cls, ids: Mapping[str, int]) -> "Contacts":
        """Those of ``[telegram.contacts]``."""
        return cls({name: f"telegram:{id}" for name, id in ids.items()})

    def find(self, name: str) -> Contact | None:
        """Whom somebody means, upper and lower case being one, and blanks around the name nothing."""
        meant = name.strip().casefold()
        return next((Contact(each, place) for each, place in self.chats.items() if each.casefold() == meant), None)

    def known(self) -> str:
        """All names, as a sentence has them."""
        return ", ".join(sorted(self.chats)) or "none are configured"
