"""Where words for people may go, and what became of them."""

from collections.abc import Sequence
from uuid import UUID, uuid5

from shared.adapters.postgres.pool import Database
from shared.domain.delivery import Dispatch
from shared.domain.run import Address
from shared.ports.records import Whose

PLACES = """
select key from conversations
where channel = %s and (%s::text is null or key in (%s, channel || ':' || %s))
  and (%s::text is null or principal = %s or (%s and principal not like 'key:%%'))
order by key limit %s
"""
ADDRESS = "select key, channel, principal, contact from conversations where key = %s"
LED = """
select exists (select 1 from channel_leaders l join workers w on w.id = l.bridge
               where l.channel = %s and w.state in ('alive', 'draining'))
"""
DISPATCH = """
select r.conversation, r.state, r.outcome ->> 'error',
       coalesce((select array_agg(d.id order by d.part) from deliveries d where d.run = r.id), '{}'),
       coalesce((select array_agg(d.state order by d.part) from deliveries d where d.run = r.id), '{}')
from runs r where r.id = %s
"""
DISPATCHED_BEFORE = """
select conversation, 'done', null, array_agg(id order by created_at), array_agg(state order by created_at)
from deliveries where id = any(%s::uuid[]) group by conversation
"""
MOST_PARTS = 32
"""Code of the release before put the parts in itself, each under an id of its own, which are known by the whole's."""


class PostgresOutbox:
    """``Outbox`` of the gateway's and of the scheduler's ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def places(self, channel: str, chat: str | None, whose: Whose, *, limit: int) -> Sequence[str]:
        """See ``Outbox.places``."""
        parameters = (channel, chat, chat, chat, whose.principal, whose.principal, whose.keyless, limit)
        return [row[0] for row in await self._database.rows(PLACES, parameters)]

    async def address(self, conversation: str) -> Address | None:
        """See ``Outbox.address``."""
        rows = await self._database.rows(ADDRESS, (conversation,))
        return Address(*rows[0]) if rows else None

    async def is_led(self, channel: str) -> bool:
        """See ``Outbox.is_led``."""
        return bool(await self._database.value(LED, (channel,)))

    async def dispatch(self, run: UUID) -> Dispatch | None:
        """See ``Outbox.dispatch``."""
        rows = await self._database.rows(DISPATCH, (run,))
        if not rows:
            before = [uuid5(run, str(part)) for part in range(MOST_PARTS)]
            rows = await self._database.rows(DISPATCHED_BEFORE, (before,))
        return Dispatch(*rows[0]) if rows else None
