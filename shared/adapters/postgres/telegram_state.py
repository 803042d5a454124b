"""What the Telegram bridge remembers between its lives."""

from datetime import timedelta
from uuid import UUID

from shared.adapters.postgres.pool import Database

MARK = "select next_update, now() - updated_at from telegram_state where bot = %s"
# Not the greatest of both: after a long silence Telegram counts from anywhere. Only who leads may write.
REMEMBER = """
insert into telegram_state (bot, next_update)
select %s, %s where exists (select 1 from channel_leaders where channel = 'telegram' and bridge = %s and epoch = %s)
on conflict (bot) do update set next_update = excluded.next_update, updated_at = now() returning true
"""


class PostgresTelegramState:
    """``TelegramState`` of the bridge's ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def mark(self, bot: int) -> tuple[int, timedelta] | None:
        """See ``TelegramState.mark``."""
        rows = await self._database.rows(MARK, (bot,))
        return (rows[0][0], rows[0][1]) if rows else None

    async def remember(self, bot: int, next_update: int, *, bridge: UUID, epoch: int) -> bool:
        """See ``TelegramState.remember``."""
        return bool(await self._database.value(REMEMBER, (bot, next_update, bridge, epoch)))
