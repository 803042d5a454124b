"""Words for people, put in as deliveries; ``lucyd_send_out`` is in ``0011_runs_listed.sql``."""

from collections.abc import Sequence
from uuid import UUID

from shared.adapters.postgres.pool import Database
from shared.domain.delivery import DeliveryState
from shared.ports.records import Whose

PLACES = """
select key from conversations
where channel = %s and (%s::text is null or key in (%s, channel || ':' || %s))
  and (%s::text is null or principal = %s or (%s and principal not like 'key:%%'))
order by key limit %s
"""
SEND_OUT = "select lucyd_send_out(%s, %s, %s::uuid[], %s::text[])"
PLACE_OF = "select conversation from deliveries where id = %s"
STATES = "select state from deliveries where id = any(%s::uuid[])"


class PostgresOutbox:
    """``Outbox`` of the gateway's ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def places(self, channel: str, chat: str | None, whose: Whose, *, limit: int) -> Sequence[str]:
        """See ``Outbox.places``."""
        parameters = (channel, chat, chat, chat, whose.principal, whose.principal, whose.keyless, limit)
        return [row[0] for row in await self._database.rows(PLACES, parameters)]

    async def place_of(self, id: UUID) -> str | None:
        """See ``Outbox.place_of``."""
        rows = await self._database.rows(PLACE_OF, (id,))
        return str(rows[0][0]) if rows else None

    async def send_out(self, conversation: str, channel: str, parts: Sequence[tuple[UUID, str]]) -> bool:
        """See ``Outbox.send_out``."""
        ids, texts = [id for id, _ in parts], [text for _, text in parts]
        return bool(await self._database.value(SEND_OUT, (conversation, channel, ids, texts)))

    async def states(self, ids: Sequence[UUID]) -> Sequence[DeliveryState]:
        """See ``Outbox.states``."""
        return [row[0] for row in await self._database.rows(STATES, (list(ids),))]
