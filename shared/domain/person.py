"""Whom memory, authorisation and erasure go by."""

from dataclasses import dataclass, field

from shared.domain.api_key import OPERATOR

OWNER = "owner"
"""The person that an agent belongs to."""

_TELEGRAM = "person:telegram:"
_KEY = "key:"


@dataclass(frozen=True, slots=True)
class Identity:
    """As whom somebody came, and the person this is as long as nobody has linked it with another."""

    name: str
    person: str


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
