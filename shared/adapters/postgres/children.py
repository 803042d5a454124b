"""Children of runs over Postgres; see ``0017_children.sql``."""

from collections.abc import Sequence
from decimal import Decimal
from uuid import UUID

from shared.adapters.postgres.pool import Database

COLLECT = "select lucyd_collect_children(%s)"
MIND = "select lucyd_mind_children(%s, %s)"
# As for what a run has spent itself: what was paid, not what may have been.
SPENT_BESIDE = """
select coalesce(sum(cost), 0) from costs
where run in (select run from children where root = %s union all select %s::uuid) and run <> %s
  and not (estimated and provider = '')
"""

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

    async def spent_beside(self, run: UUID, *, root: UUID) -> Decimal:
        """See ``Children.spent_beside``."""
        spent: Decimal = await self._database.value(SPENT_BESIDE, (root, root, run))
        return spent
