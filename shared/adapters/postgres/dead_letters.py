"""What was given up: the view and the functions of ``0005_webhooks.sql``."""

from collections.abc import Sequence
from uuid import UUID

from shared.adapters.postgres.pool import Database
from shared.domain.run import Address
from shared.ports.dead_letters import DeadKind, DeadLetter, DeadMessage, Scope

OPEN = """
select id, kind, open, state, reason, conversation, principal, run, at, attempts, worker, step, about, retried_as
from dead_letters
where open and (%s::text is null or principal = %s or (%s and not starts_with(principal, 'key:')))
order by at desc, id limit %s
"""
FIND = """
select id, kind, open, state, reason, conversation, principal, run, at, attempts, worker, step, about, retried_as
from dead_letters where id = %s
"""
MESSAGE = """
select r.kind, c.key, c.channel, r.principal, c.contact, r.message, r.source, r.tier, r.sender, r.webhook
from runs r join conversations c on c.key = r.conversation where r.id = %s and r.state = 'dead'
"""


class PostgresDeadLetters:
    """``DeadLetters`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, scope: Scope, *, limit: int = 200) -> Sequence[DeadLetter]:
        """See ``DeadLetters.open``."""
        parameters = (scope.principal, scope.principal, scope.keyless, limit)
        return [DeadLetter(*row) for row in await self._database.rows(OPEN, parameters)]

    async def find(self, id: UUID, scope: Scope) -> DeadLetter | None:
        """See ``DeadLetters.find``."""
        found = [DeadLetter(*row) for row in await self._database.rows(FIND, (id,))]
        return next((letter for letter in found if scope.covers(letter.principal)), None)

    async def message(self, run: UUID) -> DeadMessage | None:
        """See ``DeadLetters.message``."""
        rows = await self._database.rows(MESSAGE, (run,))
        if not rows:
            return None
        kind, key, channel, principal, contact, message, source, tier, sender, webhook = rows[0]
        details = {name: value for name, value in message.items() if name != "text"}
        return DeadMessage(
            kind=kind,
            address=Address(key, channel, principal, contact),
            text=message.get("text", ""),
            source=source,
            tier=tier,
            sender=sender,
            details=details,
            webhook=webhook,
        )

    async def revive(self, kind: DeadKind, id: UUID) -> bool:
        """See ``DeadLetters.revive``."""
        return bool(await self._database.value("select lucyd_revive(%s, %s)", (kind, id)))

    async def drop(self, kind: DeadKind, id: UUID) -> bool:
        """See ``DeadLetters.drop``."""
        return bool(await self._database.value("select lucyd_drop(%s, %s)", (kind, id)))
