"""Figures about the whole are asked for now and then, however many want to see them."""

import asyncio
from collections.abc import Mapping
from decimal import Decimal

from services.gateway.actions.take_stock import StockTaker
from shared.adapters.inmemory.clock import ManualClock
from shared.errors import TryLater


class Shelf:
    """Counts how often it was asked, and can be away."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_away = False

    async def figures(self) -> Mapping[str, Mapping[str, int | Decimal]]:
        self.asked += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise TryLater("it is away")
        return {"things": {"red": self.asked}}


async def test_many_who_look_ask_once_in_five_seconds() -> None:
    """The page is open to everybody, and must not be a way to keep Postgres busy."""
    shelf, clock = Shelf(), ManualClock()
    stock = StockTaker({"shelf": shelf}, clock)
    await asyncio.gather(*(stock.refresh() for _ in range(100)))
    clock.advance(4.9)
    await stock.refresh()
    assert (shelf.asked, stock.figures) == (1, {"things": {"red": 1}})
    clock.advance(0.2)
    await stock.refresh()
    assert (shelf.asked, stock.figures) == (2, {"things": {"red": 2}})


async def test_who_is_away_is_said_to_be_and_old_figures_are_none() -> None:
    """A flat line would say that all is well."""
    shelf, other, clock = Shelf(), Shelf(), ManualClock()
    stock = StockTaker({"shelf": shelf, "other": other}, clock)
    other.is_away = True
    await stock.refresh()
    assert stock.sources == {"shelf": True, "other": False}
    shelf.is_away = True
    clock.advance(6)
    await stock.refresh()
    assert stock.sources == {"shelf": False, "other": False}
    assert stock.figures == {}
