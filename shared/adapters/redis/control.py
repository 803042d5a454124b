"""``lucyd:control``: a capped stream that every worker reads for itself."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog

from shared.adapters.redis.connection import LONGEST_BLOCK, Redis, bounded, faults_as_try_later
from shared.errors import TryLater
from shared.messages import routes
from shared.ports.control import Command

log = structlog.get_logger(__name__)

KEPT = 1000
TELL_WITHIN = timedelta(milliseconds=500)
LISTEN_MS = round(LONGEST_BLOCK.total_seconds() * 1000)
PAUSE_WITHOUT_REDIS = 0.5


class RedisControl:
    """``Control`` of the ports."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def tell(self, command: Command) -> None:
        """See ``Control.tell``."""
        fields: dict[Any, Any] = {
            "type": command.type,
            "run": str(command.run),
            "conversation": command.conversation,
            "reason": command.reason,
        }
        await bounded(self._client.xadd(routes.CONTROL, fields, maxlen=KEPT, approximate=True), TELL_WITHIN)

    async def hear(self) -> AsyncIterator[Command]:
        """See ``Control.hear``."""
        last: str | None = None
        while True:
            try:
                with faults_as_try_later():
                    last = last or await self._newest()
                    reply: Any = await self._client.xread({routes.CONTROL: last}, block=LISTEN_MS)
            except TryLater as fault:
                log.warning("control_not_read", reason=str(fault))
                last = None  # Redis may come back emptied, and its ids with a clock of their own
                await asyncio.sleep(PAUSE_WITHOUT_REDIS)
                continue
            for _, entries in reply:
                for entry, fields in entries:
                    last = entry
                    if (command := _command(fields)) is not None:
                        yield command

    async def _newest(self) -> str:
        """What was told before this process listened is its predecessors' business, or stands in Postgres."""
        entries: Any = await self._client.xrevrange(routes.CONTROL, count=1)
        return str(entries[0][0]) if entries else "0-0"


def _command(fields: Mapping[str, str]) -> Command | None:
    """The command of an entry; ``None`` for one that only newer code understands."""
    try:
        if fields["type"] != "cancel":
            return None
        return Command("cancel", UUID(fields["run"]), fields["conversation"], fields.get("reason", ""))
    except (KeyError, ValueError):
        return None
