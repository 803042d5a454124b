"""Send what is due: claimed first, one at a time in each conversation, settled by what is known of it afterwards."""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from uuid import UUID

import structlog

from services.telegram_bridge.ports import BotAccount, Pulse, Refused, TokenRefused, Unclear
from services.telegram_bridge.rules.backoff import Backoff
from services.telegram_bridge.rules.files import file_to_send
from services.telegram_bridge.rules.message import again_data
from services.telegram_bridge.rules.place import Place, place_of
from services.telegram_bridge.rules.updates import Button
from shared.domain.delivery import SEND_AGAIN, Delivery
from shared.domain.outgoing_file import LARGEST_FILE, OutgoingFile
from shared.errors import TryLater
from shared.ports.blobs import Blobs
from shared.ports.bus import Outbound
from shared.ports.clock import Clock
from shared.ports.deliveries import Deliveries

log = structlog.get_logger(__name__)

AT_ONCE = 16
UPLOADS_AT_ONCE = 3
"""Each may be tens of megabytes."""

LOOK_EVERY = timedelta(seconds=1)
FRESH = timedelta(seconds=4)
"""An older beat may be the last one that counted: peers fence after six seconds."""

LOOK_AT_BEAT_EVERY = 0.1
REACTION_TRIES = 10
"""Done twice it is there once, so it is tried again where a message would be in doubt; but it must not hold up the
chat for ever."""

SETTLE_AGAIN_AFTER = 0.5
TOKEN_PAUSE = timedelta(seconds=60)

Settling = Callable[[], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Postman:
    """What sending needs."""

    account: BotAccount
    deliveries: Deliveries
    pulse: Pulse
    clock: Clock
    backoff: Backoff
    chance: random.Random
    blobs: Blobs
    uploads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(UPLOADS_AT_ONCE))


class DeliveriesInHand:
    """What this process has claimed and not settled yet. It outlives a term of leadership: what is out is out."""

    def __init__(self, postman: Postman) -> None:
        self._postman = postman
        self._tasks: dict[UUID, asyncio.Task[None]] = {}
        self._look = asyncio.Event()
        self.sent = 0

    @property
    def count(self) -> int:
        """How many are being sent."""
        return len(self._tasks)

    def nudge(self) -> None:
        """Something may be due."""
        self._look.set()

    async def send_due(self, *, bridge: UUID, epoch: int) -> None:
        """Claim and send, until this bridge leads no more. What it has in hand then goes on.

        Raises ``TryLater`` when Postgres is away.
        """
        while True:
            self._look.clear()
            await wait_for_beat(self._postman)
            free = AT_ONCE - len(self._tasks)
            if free > 0:
                claimed = await self._postman.deliveries.claim(
                    bridge=bridge, epoch=epoch, in_hand=tuple(self._tasks), limit=free
                )
                if claimed is None:
                    return
                for delivery in claimed:
                    self._tasks[delivery.id] = asyncio.create_task(self._send(delivery))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY.total_seconds()):
                    await self._look.wait()

    async def listen(self, outbound: Outbound) -> None:
        """Look at once when Redis says that something is due; without Redis the look of each second does."""
        while True:
            try:
                if await outbound.nudged(within=LOOK_EVERY):
                    self.nudge()
            except TryLater as fault:
                log.warning("wake_ups_not_heard", reason=str(fault))
                await self._postman.clock.sleep(max(fault.after, LOOK_EVERY.total_seconds()))

    async def watch(self) -> None:
        """Go on until a sending ends by a fault that nobody had thought of, and raise that.

        Nobody knows then whether it was sent: it stays claimed, and is in doubt once this process is gone.
        """
        while True:
            await self._postman.clock.sleep(LOOK_EVERY.total_seconds())
            for task in self._tasks.values():
                if task.done() and not task.cancelled():
                    task.result()

    async def empty(self) -> None:
        """Return when all is settled."""
        while pending := [task for task in self._tasks.values() if not task.done()]:
            await asyncio.wait(pending)

    async def drop(self) -> None:
        """End what is still out. It stays claimed, and whoever leads next will doubt it."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _send(self, delivery: Delivery) -> None:
        settle = await send_delivery(delivery, self._postman)
        await _insist(settle, self._postman.clock)
        # Only now: what is no longer in hand and not settled would count as never begun.
        del self._tasks[delivery.id]
        self.sent += 1
        self._look.set()


async def wait_for_beat(postman: Postman) -> None:
    """Return when this process certainly counts as living."""
    while postman.pulse.age >= FRESH:
        await postman.clock.sleep(LOOK_AT_BEAT_EVERY)


async def send_delivery(delivery: Delivery, postman: Postman) -> Settling:
    """Send one delivery, once; how to settle it."""
    deliveries = postman.deliveries
    place = place_of(delivery.conversation)
    if place is None or not (delivery.file or delivery.reaction or delivery.text.strip()):
        return partial(deliveries.fail, delivery, reason="there is nothing to send, or nowhere to send it")
    told = {"delivery": str(delivery.id), "run": str(delivery.run) if delivery.run else None}
    try:
        message = await _sent_to(place, delivery, postman)
    except TokenRefused as fault:
        log.error("delivery_put_off", **told, reason=str(fault))  # noqa: TRY400 - a traceback would say nothing more
        return partial(deliveries.put_off, delivery, after=TOKEN_PAUSE, reason=str(fault))
    except TryLater as fault:
        pause = postman.backoff.pause(delivery.attempt, chance=postman.chance.random(), asked=fault.after)
        log.warning("delivery_put_off", **told, reason=str(fault), again_in=round(pause.total_seconds(), 1))
        return partial(deliveries.put_off, delivery, after=pause, reason=str(fault))
    except Refused as fault:
        log.warning("delivery_failed", **told, reason=str(fault))
        return partial(deliveries.fail, delivery, reason=str(fault))
    except Unclear as fault:
        if delivery.reaction is not None and delivery.attempt < REACTION_TRIES:
            pause = postman.backoff.pause(delivery.attempt, chance=postman.chance.random(), asked=0.0)
            log.warning("reaction_tried_again", **told, reason=str(fault), again_in=round(pause.total_seconds(), 1))
            return partial(deliveries.put_off, delivery, after=pause, reason=str(fault))
        if delivery.reaction is not None:
            log.warning("delivery_failed", **told, reason=str(fault))
            return partial(deliveries.fail, delivery, reason=str(fault))
        log.warning("delivery_in_doubt", **told, reason=str(fault))
        return partial(deliveries.doubt, delivery, reason=str(fault))
    log.info("delivery_sent", **told, attempt=delivery.attempt)
    return partial(deliveries.sent, delivery, external_id=message)


async def _sent_to(place: Place, delivery: Delivery, postman: Postman) -> str:
    """Send it; the number it has there. Raises as ``BotAccount.send`` does."""
    file, reaction = delivery.file, delivery.reaction
    if reaction is not None:
        await wait_for_beat(postman)
        await postman.account.react(place, reaction)
        return reaction.message
    if file is not None:
        async with postman.uploads:
            return await _file_sent_to(place, file, postman)
    button = Button(SEND_AGAIN, again_data(delivery.id)) if "again" in delivery.body else None
    await wait_for_beat(postman)
    return await postman.account.send(place, delivery.text, button=button)


async def _file_sent_to(place: Place, file: OutgoingFile, postman: Postman) -> str:
    data = (await postman.blobs.load([file.blob])).get(file.blob)
    if data is None:
        raise Refused("the file is no longer kept")
    sending = file_to_send(file, data)
    if sending is None:
        raise Refused(f"the file is larger than {LARGEST_FILE} bytes")
    await wait_for_beat(postman)
    try:
        return await postman.account.send_file(place, sending)
    except Refused as fault:  # only a clear no is that: nothing was sent
        if sending.shown_as == "document":
            raise
        log.info("sent_as_a_document", asked=sending.shown_as, reason=str(fault))
    await wait_for_beat(postman)
    return await postman.account.send_file(place, replace(sending, shown_as="document"))


async def _insist(settle: Settling, clock: Clock) -> None:
    while True:
        try:
            await settle()
        except TryLater as fault:
            log.warning("delivery_not_settled", reason=str(fault))
            await clock.sleep(max(fault.after, SETTLE_AGAIN_AFTER))
        else:
            return
