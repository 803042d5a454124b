"""Be the one bridge that takes and sends, or stand by until it is gone."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Literal
from uuid import UUID

import structlog

from services.telegram_bridge.actions.deliver import DeliveriesInHand
from services.telegram_bridge.actions.take_updates import Doorway, take_updates
from services.telegram_bridge.ports import TelegramState
from shared.errors import TryLater
from shared.ports.bus import Outbound
from shared.ports.clock import Clock
from shared.ports.deliveries import Deliveries

log = structlog.get_logger(__name__)

TRY_EVERY = timedelta(seconds=1)
DOUBT_EVERY = timedelta(seconds=1)

Role = Literal["leader", "standby"]


async def lead_or_stand_by(
    deliveries: Deliveries,
    work: Callable[[int], Awaitable[None]],
    clock: Clock,
    on_role: Callable[[Role], None],
    me: UUID,
) -> None:
    """Do ``work`` with the epoch of each term; goes on until it fails.

    Who leads stands in Postgres beside who lives, so a leader that was stopped is followed as soon as it is fenced; a
    lock of its connection it would keep for as long as its host answers for it.
    """
    while True:
        on_role("standby")
        try:
            epoch = await deliveries.lead(me)
            if epoch is not None:
                log.info("leading", epoch=epoch)
                on_role("leader")
                await work(epoch)
                log.info("leadership_ended", epoch=epoch)
        except TryLater as fault:
            log.warning("leadership_unknown", reason=str(fault))
        await clock.sleep(TRY_EVERY.total_seconds())


async def lead_channel(
    door: Doorway,
    hand: DeliveriesInHand,
    state: TelegramState,
    outbound: Outbound,
    *,
    bridge: UUID,
    epoch: int,
    poll: timedelta,
) -> None:
    """Take and send until another bridge leads, or this one drains. Raises ``TryLater`` when Postgres is away."""
    await until_one_ends(
        lambda: take_updates(door, state, bridge=bridge, epoch=epoch, poll=poll),
        lambda: _send(hand, door.clock, bridge=bridge, epoch=epoch),
        lambda: hand.listen(outbound),
        lambda: _doubt_for_ever(door.deliveries, hand, door.clock),
    )


async def until_one_ends(*loops: Callable[[], Awaitable[None]]) -> None:
    """Run all, end all as soon as one ends, and raise what it raised."""
    tasks = [asyncio.ensure_future(loop()) for loop in loops]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


async def _send(hand: DeliveriesInHand, clock: Clock, *, bridge: UUID, epoch: int) -> None:
    while True:
        try:
            return await hand.send_due(bridge=bridge, epoch=epoch)
        except TryLater as fault:
            log.warning("deliveries_not_claimed", reason=str(fault))
            await clock.sleep(max(fault.after, 0.5))


async def _doubt_for_ever(deliveries: Deliveries, hand: DeliveriesInHand, clock: Clock) -> None:
    """What dead bridges were sending. Until it is in doubt, nothing else of its conversation is claimed."""
    while True:
        try:
            if count := await deliveries.doubt_abandoned():
                log.warning("deliveries_in_doubt", count=count)
                hand.nudge()
        except TryLater as fault:
            log.warning("doubt_put_off", reason=str(fault))
        await clock.sleep(DOUBT_EVERY.total_seconds())
