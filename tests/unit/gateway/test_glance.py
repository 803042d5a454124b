"""One look is enough for all who ask within a second."""

import asyncio

import pytest

from services.gateway.actions.glance import Glance
from shared.adapters.inmemory.clock import ManualClock
from shared.errors import TryLater


class Shop:
    """Counts who looks in; may be closed."""

    def __init__(self) -> None:
        self.looked = 0
        self.is_closed = False
        self.answers = asyncio.Event()
        self.answers.set()

    async def look(self) -> int:
        self.looked += 1
        await self.answers.wait()
        if self.is_closed:
            raise TryLater("closed")
        return self.looked


async def test_all_who_ask_within_a_second_are_told_the_same() -> None:
    """The status is open to everybody, and must not be a way to keep Postgres busy."""
    shop, clock = Shop(), ManualClock()
    glance = Glance(shop.look, clock)
    shop.answers.clear()
    crowd = [asyncio.create_task(glance.seen()) for _ in range(100)]
    await asyncio.sleep(0)
    crowd[0].cancel()  # whoever began the look may be gone before it ends
    await asyncio.sleep(0)
    shop.answers.set()
    assert await asyncio.gather(*crowd[1:]) == [1] * 99
    clock.advance(0.9)
    assert await glance.seen() == 1
    clock.advance(0.2)
    assert (await glance.seen(), shop.looked) == (2, 2)


async def test_what_could_not_be_seen_is_looked_for_again_after_a_second() -> None:
    """A flood of questions must not make it worse."""
    shop, clock = Shop(), ManualClock()
    glance = Glance(shop.look, clock)
    shop.is_closed = True
    for _ in range(3):
        with pytest.raises(TryLater):
            await glance.seen()
    assert shop.looked == 1
    shop.is_closed = False
    clock.advance(1.1)
    assert await glance.seen() == 2
