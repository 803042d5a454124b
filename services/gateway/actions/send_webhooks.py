"""Send webhooks that are due, beside everything else: no run and no request ever waits for a receiver."""

import asyncio
import random
from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

import structlog

from services.gateway.ports import Courier
from services.gateway.rules.webhook_verdict import Again, Dead, Sent, verdict
from shared.errors import TryLater
from shared.ports.clock import Clock
from shared.ports.webhooks import Webhook, Webhooks

log = structlog.get_logger(__name__)

LOOK_EVERY = timedelta(seconds=1)
AT_ONCE = 8
"""Tries under way in one gateway; a receiver that hangs holds up these and nothing else."""

LAST_TRIES = timedelta(seconds=3)
"""How long a gateway that is being stopped waits for answers."""

TELL_AGAIN = timedelta(seconds=1)


class WebhookSender:
    """One in each gateway. ``stale``: after so long without a word another sender takes a webhook over; it must be
    longer than a try can take."""

    def __init__(
        self,
        webhooks: Webhooks,
        couriers: Mapping[str, Courier],
        clock: Clock,
        *,
        me: UUID,
        stale: timedelta,
        chance: random.Random,
    ) -> None:
        self._webhooks = webhooks
        self._couriers = couriers
        self._clock = clock
        self._me = me
        self._stale = stale
        self._chance = chance
        self._under_way: dict[UUID, asyncio.Task[None]] = {}
        self._closed = False
        self._fault: Exception | None = None
        self.tried = {"sent": 0, "failed": 0, "dead": 0}
        """Tries since the start of this process, by what came of them."""

    async def run(self) -> None:
        """Look every second, and at once when something was done while more was due; until cancelled."""
        try:
            while True:
                if self._closed or not await self.look():
                    await self._clock.sleep(LOOK_EVERY.total_seconds())
        finally:
            await self._stop()

    async def look(self) -> bool:
        """Take what is due and begin to send it; true when there may be more, after waiting for a free place."""
        if self._fault is not None:
            raise self._fault
        if len(self._under_way) >= AT_ONCE:
            await asyncio.wait(self._under_way.values(), return_when=asyncio.FIRST_COMPLETED)
            return True
        free = AT_ONCE - len(self._under_way)
        try:
            taken = await self._webhooks.take(
                sender=self._me,
                targets=list(self._couriers),
                in_hand=list(self._under_way),
                limit=free,
                stale=self._stale,
            )
        except TryLater as fault:
            log.warning("webhooks_put_off", reason=str(fault))
            return False
        for webhook in taken:
            self._under_way[webhook.id] = asyncio.create_task(self._send(webhook))
        return len(taken) == free

    async def close(self) -> None:
        """Take nothing more, and give what is under way a moment; the rest is due again for others."""
        self._closed = True
        if self._under_way:
            await asyncio.wait(self._under_way.values(), timeout=LAST_TRIES.total_seconds())
        await self._stop()

    async def _stop(self) -> None:
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, webhook: Webhook) -> None:
        try:
            await self._try(webhook)
        except Exception as fault:  # noqa: BLE001 - a fault of ours ends the process like any loop's, at the next look
            self._fault = fault
        finally:
            del self._under_way[webhook.id]

    async def _try(self, webhook: Webhook) -> None:
        known = {"webhook": str(webhook.id), "run": str(webhook.run), "attempt": webhook.attempts}
        try:
            receipt = await self._couriers[webhook.target].deliver(webhook)
        except asyncio.CancelledError:
            # Whether it arrived is not known; that is what its id is for.
            await self._tell_of_stop(webhook)
            raise
        judged = verdict(receipt, attempts=webhook.attempts, tried_for=webhook.tried_for, chance=self._chance.random())
        match judged:
            case Sent(status):
                self.tried["sent"] += 1
                log.info("webhook_sent", **known, status=status)
            case Again(after, reason):
                self.tried["failed"] += 1
                log.info("webhook_failed", **known, reason=reason, again_in=round(after.total_seconds(), 1))
            case Dead(reason):
                self.tried["dead"] += 1
                log.warning("webhook_dead", **known, reason=reason)
        await self._tell(webhook, judged, receipt.status)

    async def _tell(self, webhook: Webhook, judged: Sent | Again | Dead, status: int | None) -> None:
        """Store the verdict; after ``stale`` another sender has it, and no verdict counts but that it was sent."""
        give_up_at = self._clock.monotonic() + self._stale.total_seconds()
        while True:
            try:
                await self._store(webhook, judged, status)
            except TryLater as fault:
                if self._clock.monotonic() >= give_up_at:
                    log.warning("webhook_not_booked", webhook=str(webhook.id), reason=str(fault))
                    return
            else:
                return
            await self._clock.sleep(TELL_AGAIN.total_seconds())

    async def _store(self, webhook: Webhook, judged: Sent | Again | Dead, status: int | None) -> None:
        match judged:
            case Sent(taken):
                await self._webhooks.sent(webhook, status=taken)
            case Again(after, reason):
                await self._webhooks.put_off(webhook, sender=self._me, after=after, status=status, reason=reason)
            case Dead(reason):
                await self._webhooks.give_up(webhook, sender=self._me, status=status, reason=reason)

    async def _tell_of_stop(self, webhook: Webhook) -> None:
        try:
            await self._webhooks.put_off(
                webhook, sender=self._me, after=timedelta(0), status=None, reason="the gateway was stopped meanwhile"
            )
        except TryLater as fault:
            log.warning("webhook_not_booked", webhook=str(webhook.id), reason=str(fault))
