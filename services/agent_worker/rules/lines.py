"""Conversations that wait for a slot, in one line for each principal, and whose turn it is."""

import heapq
from collections import Counter, OrderedDict
from collections.abc import Sequence

from services.agent_worker.rules.fair_share import FairShare

SPARE = 64
"""So many outdated turns are kept before they are swept out."""


class Lines:
    """Knows who has how many slots, and who waits. Pure bookkeeping: whoever starts work tells it.

    The next is the first in the line of the principal that is served least by its weight, and of those the one that has
    waited longest. A principal whose window is full has no turn. Finding it costs the logarithm of how many wait.
    """

    def __init__(self, share: FairShare, *, most: int) -> None:
        """``most`` conversations wait at a time, of all principals together."""
        self._share = share
        self._most = most
        self._held: Counter[str] = Counter()
        self._lines: dict[str, OrderedDict[str, int]] = {}
        self._whose: dict[str, tuple[str, float]] = {}
        self._turns: list[tuple[float, int, str]] = []
        self._came = 0

    def __len__(self) -> int:
        """How many wait."""
        return len(self._whose)

    def __contains__(self, conversation: str) -> bool:
        """Whether it waits."""
        return conversation in self._whose

    @property
    def since(self) -> float | None:
        """When the one that has waited longest came; ``None`` when nobody waits."""
        return next((came_at for _, came_at in self._whose.values()), None)

    def has_room(self, principal: str) -> bool:
        """Whether one more of this principal may begin, as far as its window goes; nobody overtakes its own line."""
        return self._held[principal] < self._share.most(principal) and principal not in self._lines

    def full(self) -> Sequence[str]:
        """Principals of which no more should be looked for."""
        held = (principal for principal in self._held if not self.has_room(principal))
        return list(dict.fromkeys((*self._lines, *held)))

    def begun(self, principal: str) -> None:
        """It has one slot more."""
        self._held[principal] += 1
        self._give_turn(principal)

    def ended(self, principal: str) -> None:
        """It has one slot less."""
        self._held[principal] -= 1
        if not self._held[principal]:
            del self._held[principal]
        self._give_turn(principal)

    def wait(self, conversation: str, principal: str, *, now: float) -> bool:
        """Put it at the end of its line; one that waits keeps its place. False: too many wait already.

        A principal of which nobody waits is let in all the same: the last of the longest line gives way.
        """
        if conversation in self._whose:
            return True
        if len(self._whose) >= self._most and not self._make_room(principal):
            return False
        self._came += 1
        line = self._lines.setdefault(principal, OrderedDict())
        line[conversation] = self._came
        self._whose[conversation] = (principal, now)
        if len(line) == 1:
            self._give_turn(principal)
        return True

    def next(self) -> tuple[str, str] | None:
        """Take the conversation whose turn it is, with its principal, out of its line; ``None`` when nobody may begin.

        Whoever takes it says ``begun``.
        """
        if not self._find_turn():
            return None
        _, _, principal = heapq.heappop(self._turns)
        line = self._lines[principal]
        conversation, _ = line.popitem(last=False)
        del self._whose[conversation]
        if not line:
            del self._lines[principal]
        return conversation, principal

    def comes_before(self, principal: str) -> bool:
        """Whether somebody waits that has no slot, or with one slot more is served no better than this principal."""
        if not self._find_turn():
            return False
        load, _, first = self._turns[0]
        if first == principal:
            return False
        if not self._held[first]:
            return True  # whatever its weight: while conversations have no end, no slot comes free by itself
        one_more = load + 1 / self._share.weight(first)
        return one_more <= self._share.load(principal, self._held[principal])

    def clear(self) -> Sequence[tuple[str, str]]:
        """Send everybody away; which conversations waited, with their principals."""
        waited = [(conversation, principal) for conversation, (principal, _) in self._whose.items()]
        self._lines.clear()
        self._whose.clear()
        self._turns.clear()
        return waited

    def _make_room(self, principal: str) -> bool:
        if principal in self._lines or 2 * len(self._lines) > self._most:  # then no line is long
            return False
        last, _ = max(self._lines.values(), key=len).popitem(last=True)
        del self._whose[last]
        return True

    def _turn(self, principal: str) -> tuple[float, int, str] | None:
        line = self._lines.get(principal)
        if not line or self._held[principal] >= self._share.most(principal):
            return None
        return self._share.load(principal, self._held[principal]), next(iter(line.values())), principal

    def _give_turn(self, principal: str) -> None:
        """What was written down before for this principal is outdated then, and passed over when it comes up."""
        if (turn := self._turn(principal)) is not None:
            heapq.heappush(self._turns, turn)
        if len(self._turns) > 2 * len(self._lines) + SPARE:
            fresh = (self._turn(waiting) for waiting in self._lines)
            self._turns = [turn for turn in fresh if turn is not None]
            heapq.heapify(self._turns)

    def _find_turn(self) -> bool:
        """Bring a turn that holds to the front."""
        while self._turns:
            if self._turns[0] == self._turn(self._turns[0][2]):
                return True
            heapq.heappop(self._turns)
        return False
