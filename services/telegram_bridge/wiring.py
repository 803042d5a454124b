"""Picks the concrete classes of the Telegram bridge, opens them, and closes them in reverse."""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta

import structlog

from services.telegram_bridge.actions.deliver import DeliveriesInHand, Postman
from services.telegram_bridge.actions.introduce_bot import introduce_bot
from services.telegram_bridge.actions.lead_channel import Role, lead_channel, lead_or_stand_by, until_one_ends
from services.telegram_bridge.actions.take_updates import Doorway
from services.telegram_bridge.edge.bot_api import BotApi, open_bot_api
from services.telegram_bridge.ports import Bot
from services.telegram_bridge.rules.place import CHANNEL
from services.telegram_bridge.rules.standing import Standing
from services.telegram_bridge.settings import Settings
from shared.actions.keep_door import Doorkeeper
from shared.actions.sweep import sweep_for_ever
from shared.actions.watch_peers import PeerWatch
from shared.adapters.foundation import Foundation, open_foundation
from shared.adapters.postgres.blobs import PostgresBlobs
from shared.adapters.postgres.deliveries import PostgresDeliveries
from shared.adapters.postgres.fleet import Beat, PostgresFleet, beating
from shared.adapters.postgres.inbox import PostgresInbox
from shared.adapters.postgres.telegram_state import PostgresTelegramState
from shared.adapters.processes import is_gone
from shared.adapters.redis.outbound import RedisOutbound
from shared.adapters.redis.wake_ups import RedisWakeUps
from shared.adapters.system_clock import SystemClock
from shared.errors import TryLater
from shared.runtime.service import Service
from shared.runtime.settings import Configuration
from shared.runtime.vitals import LoopLag, resident_bytes

log = structlog.get_logger(__name__)

FENCED = 75  # EX_TEMPFAIL of sysexits: start me again
DRAIN = timedelta(seconds=15)
"""A call in flight may take longer; what it was sending is in doubt then."""


class Bridge:
    """The bridge of one bot, from the first call to the last."""

    def __init__(self, settings: Settings, foundation: Foundation) -> None:
        self._settings = settings
        self._foundation = foundation
        self._clock = SystemClock()
        self._chance = random.Random()  # noqa: S311 - spreads retries, guards nothing
        self._fleet = PostgresFleet(foundation.database)
        self._standing = Standing("connecting" if settings.token else "idle")
        self._role: Role = "standby"
        self._hand: DeliveriesInHand | None = None

    def vitals(self) -> Mapping[str, str]:
        """For the monitor."""
        hand = self._hand
        figures = {"role": self._role, "sending": str(hand.count), "sent": str(hand.sent)} if hand else {}
        return {**self._standing.fields(), **figures}

    async def live(self) -> None:
        """Serve the bot; without a usable token only be there."""
        settings = self._settings
        if settings.token is None:
            log.info(f"no Telegram token is set: the bridge idles; set {settings.token_variable} and start again")
        else:
            if not settings.people.allowed:
                log.warning("anybody_may_write")
            async with open_bot_api(
                settings.api_url, settings.token, timeout=settings.timeout, connect_timeout=settings.connect_timeout
            ) as account:
                bot = await introduce_bot(account, self._clock, settings.backoff, self._chance, self._show)
                if bot is not None:
                    await self._serve(account, bot)
        await asyncio.Event().wait()

    async def drain(self) -> None:
        """Claim nothing more, and wait for what is out."""
        if self._hand is None:
            return
        with contextlib.suppress(TryLater):  # nobody can be told; the peers will find this process gone
            await self._fleet.drain(self._foundation.identity.id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN.total_seconds()):
                await self._hand.empty()

    async def _serve(self, account: BotApi, bot: Bot) -> None:
        me = self._foundation.identity
        database_url = self._settings.database_url
        assert database_url is not None  # noqa: S101 - the foundation has refused otherwise
        await self._fleet.register(me)
        try:
            with beating(database_url, me.id, on_fenced=_leave_at_once) as pulse:
                await self._take_and_send(account, bot, pulse)
        finally:
            if self._hand is not None:
                await self._hand.drop()
            with contextlib.suppress(TryLater):
                await self._fleet.fence(me.id, beat=None, state="stopped")

    async def _take_and_send(self, account: BotApi, bot: Bot, pulse: Beat) -> None:
        settings, database, redis = self._settings, self._foundation.database, self._foundation.redis
        me = self._foundation.identity.id
        deliveries = PostgresDeliveries(database, channel=CHANNEL)
        blobs = PostgresBlobs(database)
        hand = DeliveriesInHand(Postman(account, deliveries, pulse, self._clock, settings.backoff, self._chance, blobs))
        self._hand = hand
        door = Doorway(
            bot=bot.id,
            account=account,
            inbox=Doorkeeper(PostgresInbox(database), self._clock, settings.bounds),
            wake_ups=RedisWakeUps(redis, consumer=str(me), stream_ttl=settings.stream_ttl),
            deliveries=deliveries,
            people=settings.people,
            manner=settings.manner,
            clock=self._clock,
            backoff=settings.backoff,
            chance=self._chance,
            nudge=hand.nudge,
        )
        state = PostgresTelegramState(database)
        outbound = RedisOutbound(redis, channel=CHANNEL)
        watch = PeerWatch(self._fleet, self._clock, me=me, is_gone=is_gone)

        async def look() -> None:
            await watch.look()  # what that frees, the workers' own sweep finds

        async def lead(epoch: int) -> None:
            await lead_channel(door, hand, state, outbound, bridge=me, epoch=epoch, poll=settings.poll)

        await until_one_ends(
            lambda: lead_or_stand_by(deliveries, lead, self._clock, self._take_role, me),
            lambda: sweep_for_ever(look, self._clock, self._chance),
            hand.watch,
        )

    def _show(self, now: Standing) -> None:
        self._standing = now

    def _take_role(self, now: Role) -> None:
        self._role = now


@contextlib.asynccontextmanager
async def open_service(configuration: Configuration) -> AsyncIterator[Service]:
    """The bridge; without a token it stays up and idles, for the other services are of use without it."""
    settings = Settings.of(configuration)
    lag = LoopLag()
    bridge: Bridge | None = None

    def vitals() -> Mapping[str, str]:
        return {"rss_bytes": str(resident_bytes()), **(bridge.vitals() if bridge else {})}

    async with open_foundation(
        "telegram_bridge",
        database_url=settings.database_url,
        redis_url=settings.redis_url,
        vitals=vitals,
        lag=lambda: lag.lately,
    ) as foundation:
        bridge = Bridge(settings, foundation)
        yield Service("telegram_bridge", loops=(*foundation.loops, lag.watch, bridge.live), drain=bridge.drain)


def _leave_at_once() -> None:
    """Called in the beat's thread: peers count this bridge as dead, so nothing it does may count any more."""
    log.error("bridge_fenced_by_peers")
    os._exit(FENCED)
