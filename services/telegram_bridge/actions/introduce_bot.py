"""Find out which bot this is."""

import random
from collections.abc import Callable

import structlog

from services.telegram_bridge.ports import Bot, Introduced, TokenRefused
from services.telegram_bridge.rules.backoff import Backoff
from services.telegram_bridge.rules.standing import Standing
from shared.errors import TryLater
from shared.ports.clock import Clock

log = structlog.get_logger(__name__)


async def introduce_bot(
    account: Introduced, clock: Clock, backoff: Backoff, chance: random.Random, show: Callable[[Standing], None]
) -> Bot | None:
    """Ask until Telegram answers, and show how it stands; ``None`` when the token is refused."""
    show(Standing("connecting"))
    failures = 0
    while True:
        try:
            bot = await account.me()
        except TokenRefused:
            show(Standing("idle"))
            told = "Telegram refuses the token: the bridge idles; set the right one and start again"
            log.error(told)  # noqa: TRY400 - a traceback would say nothing more
            return None
        except TryLater as fault:
            failures += 1
            pause = backoff.pause(failures, chance=chance.random(), asked=fault.after)
            log.warning("telegram_not_reached", reason=str(fault), again_in=round(pause.total_seconds(), 1))
            await clock.sleep(pause.total_seconds())
        else:
            show(Standing("ready", bot.username))
            log.info("bot_known", bot=bot.username)
            return bot
