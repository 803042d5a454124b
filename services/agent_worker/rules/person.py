"""Who somebody is, by what they came with: memory goes by person, and one person's is never another's."""

from dataclasses import dataclass, field

from shared.domain.api_key import OPERATOR
from shared.domain.person import OWNER, Identity

_TELEGRAM = "person:telegram:"
_KEY = "key:"


@dataclass(frozen=True, slots=True)
class People:
    """Tells whose memory a run is about. ``allowed`` are the Telegram ids that may write, none means everybody.

    An agent mostly has one owner. That is whoever holds the operator's token: the terminal, programs, and the messages
    of the house's own machines. It is also the one and only Telegram id that may write, if there is just one. Everybody
    else is a person of their own: each other Telegram id, and each sender of a named key.
    """

    allowed: frozenset[int] = field(default_factory=frozenset)

    def identity(self, *, principal: str, sender: str, conversation: str) -> Identity:
        """The identity of a run, from what its row says. A sender is what the holder of the key says, and therefore
        means nothing beyond that key."""
        if principal.startswith(_TELEGRAM):
            number = principal.removeprefix(_TELEGRAM)
            name = f"telegram:{number}"
            return Identity(name, OWNER if {str(one) for one in self.allowed} == {number} else name)
        if principal == f"{_KEY}{OPERATOR}":
            return Identity(principal, OWNER)
        if principal.startswith(_KEY):
            prefix = f"http:{principal.removeprefix(_KEY)}:"
            # Machines of a key write in conversations of their own, under names that its people may have, too.
            name = conversation if conversation.startswith(prefix) else f"{prefix}{sender}"
            return Identity(name, name)
        return Identity(principal, principal)
