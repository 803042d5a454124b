"""Bounds on what is accepted: beyond them a message is refused before anything is stored, and told for how long."""

import asyncio
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from shared.domain.run import Accepted, NewRun
from shared.errors import Full, TryLater
from shared.ports.clock import Clock
from shared.ports.runs import Inbox

log = structlog.get_logger(__name__)

COUNTED_EVERY = 1.0
"""Seconds. A count is one grouped query, and is taken only while messages come."""

STALE_AFTER = 2 * COUNTED_EVERY
"""Seconds, after which nobody is judged by a count any more while a newer one is on its way."""

SHORTEST_WAIT, LONGEST_WAIT = 1.0, 30.0
"""Seconds that a refused caller is asked to wait, by the rate at which runs have ended lately."""

ALL = ""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many runs may be open: of one principal, and of all together; 0 is no bound."""

    of_one: int = 0
    of_all: int = 0


class Doorkeeper:
    """Stands before an ``Inbox``. One per process that accepts messages.

    It knows how many runs are open by a count of at most a second ago, and what it has let in since. What other
    processes have accepted within that second it does not know: by so much the bounds may be exceeded. What it has let
    in since the start is counted in ``accepted``, by source.
    """

    def __init__(self, inbox: Inbox, clock: Clock, bounds: Bounds, accepted: Counter[str] | None = None) -> None:
        self._inbox = inbox
        self._clock = clock
        self._bounds = bounds
        self._open: Mapping[str, int] = {}
        self._since: Counter[str] = Counter()
        self._entering: Counter[str] = Counter()
        self._rates: dict[str, float] = {}
        self._counted_at: float | None = None
        self._tried_at: float | None = None
        self._counting: asyncio.Task[None] | None = None
        self._accepted: Counter[str] = Counter() if accepted is None else accepted

    async def accept(self, new: NewRun) -> Accepted:
        """As ``Inbox.accept``. Raises ``Full`` at a bound, unless the message opens no further run."""
        accepted = await self._accept(new)
        if accepted.created:
            self._accepted[new.source] += 1
        return accepted

    async def _accept(self, new: NewRun) -> Accepted:
        principal = new.address.principal
        if self._bounds == Bounds():
            return await self._inbox.accept(new)
        must_wait = self._is_stale()
        if self._counting is None and self._is_old():
            self._counting, must_wait = asyncio.create_task(self._count_if_possible()), True
        if self._counting is not None and must_wait:
            await asyncio.shield(self._counting)  # who hangs up takes nobody else's count along
        if (refusal := self._refusal(principal)) is not None and not await self._inbox.adds_nothing(new):
            raise refusal
        self._note(self._entering, principal, 1)
        try:
            accepted = await self._inbox.accept(new)
        finally:
            self._note(self._entering, principal, -1)
        if accepted.created and accepted.into is None:
            self._note(self._since, principal, 1)
        return accepted

    def _refusal(self, principal: str) -> Full | None:
        bounds = self._bounds
        if bounds.of_all and (open_ := self._now_open(ALL)) >= bounds.of_all:
            after = self._wait(ALL, open_ - bounds.of_all + 1)
            return Full("too many messages wait to be answered", after=after, of_all=True)
        if bounds.of_one and (open_ := self._now_open(principal)) >= bounds.of_one:
            after = self._wait(principal, open_ - bounds.of_one + 1)
            return Full("too many of your messages wait to be answered", after=after)
        return None

    def _now_open(self, whose: str) -> int:
        return self._open.get(whose, 0) + self._since[whose] + self._entering[whose]

    def _wait(self, whose: str, too_many: int) -> float:
        rate = self._rates.get(whose, 0.0)
        if rate <= too_many / LONGEST_WAIT:
            return LONGEST_WAIT
        return max(SHORTEST_WAIT, math.ceil(too_many / rate))

    def _is_old(self) -> bool:
        return self._tried_at is None or self._clock.monotonic() - self._tried_at >= COUNTED_EVERY

    def _is_stale(self) -> bool:
        return self._counted_at is None or self._clock.monotonic() - self._counted_at >= STALE_AFTER

    async def _count_if_possible(self) -> None:
        """One message has it done. Who comes meanwhile goes by what is known, or waits for it where that is stale."""
        try:
            await self._count()
        except TryLater as fault:
            log.warning("open_runs_not_counted", reason=str(fault))  # the inbox will say what is to be said
        finally:
            self._counting = None

    async def _count(self) -> None:
        asked_at, let_in = self._clock.monotonic(), Counter(self._since)
        self._tried_at = asked_at
        counted = await self._inbox.open_runs()
        now_open = {**counted, ALL: sum(counted.values())}
        if self._counted_at is not None:
            seconds = max(asked_at - self._counted_at, COUNTED_EVERY)
            self._rates = {
                whose: max(0.0, (self._open.get(whose, 0) + let_in[whose] - count) / seconds)
                for whose, count in now_open.items()
            }
        self._open, self._counted_at = now_open, asked_at
        self._since -= let_in

    def _note(self, counter: Counter[str], principal: str, change: int) -> None:
        for whose in (principal, ALL):
            counter[whose] += change
            if not counter[whose]:
                del counter[whose]
