"""How often a key may ask, and an address guess: windows that all gateways share, and own ones while Redis is away."""

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import structlog

from shared.domain.api_key import ApiKey
from shared.errors import TryLater
from shared.ports.clock import Clock
from shared.ports.windows import Place, Windows

log = structlog.get_logger(__name__)

ASK_AGAIN_AFTER = 1.0
"""While Redis does not answer, so many seconds pass before a request waits for it again."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Requests of one key, and failed logins of one address, in a window of ``per``. 0: as many as they like."""

    read: int
    work: int
    failed_logins: int
    per: timedelta


@dataclass(frozen=True, slots=True)
class Turn:
    """What a window says about one request: whether it may pass, of how many, how many are left, and in how many whole
    seconds there is room for one more."""

    passes: bool
    limit: int
    left: int
    frees_in: int


class Turnstile:
    """Lets requests pass as ``limits`` say. ``shared`` are the windows of all gateways; where they can't be had nobody
    is refused for that, but ``own`` windows count in their place."""

    def __init__(self, limits: Limits, shared: Windows, own: Windows, clock: Clock) -> None:
        self._limits = limits
        self._shared = shared
        self._own = own
        self._clock = clock
        self._is_alone = False
        self._alone_until = clock.monotonic()

    async def request(self, key: ApiKey, counts_as: Literal["read", "work"]) -> Turn | None:
        """One request of this key; ``None``: they are not limited. Raises nothing."""
        limit = self._limits.work if counts_as == "work" else self._limits.read
        return await self._take(f"{counts_as}:{key.principal}", limit)

    async def failed_login(self, address: str) -> Turn | None:
        """One more guess from this address; ``None``: they are not limited. Raises nothing."""
        return await self._take(f"login:{address}", self._limits.failed_logins)

    async def _take(self, name: str, limit: int) -> Turn | None:
        if limit == 0:
            return None
        place = await self._place(name, limit)
        return Turn(place.taken, limit, place.left, math.ceil(place.frees_in.total_seconds()))

    async def _place(self, name: str, limit: int) -> Place:
        if self._clock.monotonic() >= self._alone_until:
            try:
                place = await self._shared.take(name, limit=limit, per=self._limits.per)
            except TryLater as fault:
                if not self._is_alone:
                    log.warning("limits_of_this_process_alone", reason=str(fault))
                self._is_alone = True
                self._alone_until = self._clock.monotonic() + ASK_AGAIN_AFTER
            else:
                self._is_alone = False
                return place
        return await self._own.take(name, limit=limit, per=self._limits.per)
