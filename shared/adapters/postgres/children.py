"""Children of runs over Postgres; see ``0017_children.sql`` and ``0022_children_again.sql``."""

from collections.abc import Sequence
from decimal import Decimal
from uuid import UUID

from shared.adapters.postgres.pool import Database
from shared.ports.children import Purse

COLLECT = "select lucyd_collect_children(%s)"
MIND = "select lucyd_mind_children(%s, %s)"
LET_THROUGH = "select lucyd_let_through(%s, %s, %s, %s)"

PARENT_ENDED = "The run that asked for it has ended."


class PostgresChildren:
    """``Children`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def collect(self, parent: UUID) -> str | None:
        """See ``Children.collect``."""
        conversation: str | None = await self._database.value(COLLECT, (parent,))
        return conversation

    async def mind(self, *, limit: int) -> Sequence[str]:
        """See ``Children.mind``."""
        found = await self._database.value(MIND, (limit, PARENT_ENDED))
        return tuple(found["wake"])

    async def let_through(self, call: UUID, *, run: UUID, root: UUID, limit: Decimal) -> Purse:
        """See ``Children.let_through``."""
        found = await self._database.value(LET_THROUGH, (call, run, root, limit))
        return Purse(found["leave"], Decimal(found["beside"]))
