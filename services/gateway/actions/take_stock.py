"""Ask Postgres and Redis for figures about the whole, now and then, however often somebody wants to see them."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal

import structlog

from services.gateway.ports import Stock
from shared.errors import TryLater
from shared.ports.clock import Clock

log = structlog.get_logger(__name__)

FRESH_FOR = timedelta(seconds=5)

Figures = Mapping[str, Mapping[str, int | Decimal]]


class StockTaker:
    """What was told last: ``figures`` by name and kind, and of each of the ``sources`` whether it told anything."""

    def __init__(self, sources: Mapping[str, Stock], clock: Clock) -> None:
        self._sources = sources
        self._clock = clock
        self._taken_at: float | None = None
        self._told: dict[str, Figures] = {}
        self._lock = asyncio.Lock()

    @property
    def sources(self) -> Mapping[str, bool]:
        """Each by its name: whether it told its figures when it was asked last."""
        return {name: name in self._told for name in self._sources}

    @property
    def figures(self) -> Figures:
        """Of all that told theirs; old ones are no figures."""
        return {name: kinds for told in self._told.values() for name, kinds in told.items()}

    async def refresh(self) -> None:
        """Ask again what was asked more than five seconds ago. Many at once ask once; raises nothing."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._taken_at is not None and now - self._taken_at < FRESH_FOR.total_seconds():
                return
            await asyncio.gather(*(self._ask(name, source) for name, source in self._sources.items()))
            self._taken_at = self._clock.monotonic()

    async def _ask(self, name: str, source: Stock) -> None:
        try:
            self._told[name] = await source.figures()
        except TryLater as fault:
            self._told.pop(name, None)
            log.warning("stock_not_taken", source=name, reason=str(fault))
