"""Whom a tool means that tells people something: whoever the run answers, or one of the operator's contacts."""

from dataclasses import dataclass

from services.agent_worker.ports import ToolFailed, ToolUse
from shared.domain.contacts import Contacts
from shared.ports.records import Whose

LONGEST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Receiver:
    """Somebody by name. ``place`` is the key of their conversation, and ``None`` for whoever the run answers."""

    name: str
    place: str | None = None


class Receivers:
    """Finds them. Whoever runs over a named key reaches what is its own: to it the contacts do not exist."""

    def __init__(self, contacts: Contacts) -> None:
        self._contacts = contacts

    def contact(self, target: str, use: ToolUse) -> Receiver:
        """One of the contacts. Raises ``ToolFailed`` with the names of those that this run may reach."""
        contacts = self._contacts if Whose.within_reach(use.principal).keyless else Contacts()
        found = contacts.find(target)
        if found is None:
            known = contacts.known() if contacts is self._contacts else "none that this key may reach"
            raise ToolFailed(f"Unknown contact '{target[:LONGEST_SHOWN]}'. Contacts: {known}")
        return Receiver(found.name, found.place)

    def anybody(self, target: str, use: ToolUse) -> Receiver:
        """The same, or whoever the run answers, by the key of the conversation, as sender, or by their label."""
        own = use.works_in or use.conversation
        contact = self._contacts.find(target)
        if contact is not None and f"{own}:".startswith(f"{contact.place}:"):
            return Receiver(contact.name)
        names = {name.casefold() for name in (own, use.sender, use.contact) if name}
        if contact is None and target.strip().casefold() in names:
            return Receiver(target.strip()[:LONGEST_SHOWN])
        return self.contact(target, use)


def may_reach_keyless(use: ToolUse) -> bool:
    """Whether this run may also reach what belongs to no API key."""
    return Whose.within_reach(use.principal).keyless
