"""How many conversations of one principal a worker has in hand at most, and how much of it is another one's share."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FairShare:
    """``window`` is the part of the slots (0 to 1) that a principal of weight 1 may hold; ``weights`` has the others.

    Whatever is configured, a principal holds at least one slot, and no more than there are.
    """

    slots: int
    window: float = 1.0
    weights: Mapping[str, float] = field(default_factory=dict)

    def most(self, principal: str) -> int:
        """The window of this principal, in slots."""
        return min(self.slots, max(1, int(self.slots * self.window * self.weight(principal))))

    def load(self, principal: str, in_hand: int) -> float:
        """How well this principal is served with so many in hand: who has the least is next."""
        return in_hand / self.weight(principal)

    def weight(self, principal: str) -> float:
        """1 for whoever has none of its own."""
        return self.weights.get(principal, 1.0)
