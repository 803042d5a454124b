"""Picks the concrete classes of the Telegram bridge, opens them, and closes them in reverse."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping

import structlog

from services.telegram_bridge.actions.introduce_bot import introduce_bot
from services.telegram_bridge.edge.bot_api import open_bot_api
from services.telegram_bridge.rules.standing import Standing
from services.telegram_bridge.settings import Settings
from shared.adapters.foundation import open_foundation
from shared.adapters.system_clock import SystemClock
from shared.runtime.service import Service
from shared.runtime.settings import Configuration
from shared.runtime.vitals import LoopLag, resident_bytes

log = structlog.get_logger(__name__)


@contextlib.asynccontextmanager
async def open_service(configuration: Configuration) -> AsyncIterator[Service]:
    """The bridge; without a token it stays up and idles, for the other services are of use without it."""
    settings = Settings.of(configuration)
    lag = LoopLag()
    standing = Standing("connecting" if settings.token else "idle")

    def vitals() -> Mapping[str, str]:
        return {"rss_bytes": str(resident_bytes()), **standing.fields()}

    def show(now: Standing) -> None:
        nonlocal standing
        standing = now

    async def bridge() -> None:
        if settings.token is None:
            log.info(f"no Telegram token is set: the bridge idles; set {settings.token_variable} and start again")
        else:
            async with open_bot_api(
                settings.api_url, settings.token, timeout=settings.timeout, connect_timeout=settings.connect_timeout
            ) as account:
                chance = random.Random()  # noqa: S311 - spreads retries, guards nothing
                await introduce_bot(account, SystemClock(), settings.backoff, chance, show)
        await asyncio.Event().wait()

    async with open_foundation(
        "telegram_bridge",
        database_url=settings.database_url,
        redis_url=settings.redis_url,
        vitals=vitals,
        lag=lambda: lag.last,
    ) as foundation:
        yield Service("telegram_bridge", loops=(*foundation.loops, lag.watch, bridge))
