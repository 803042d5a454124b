"""How much there is of everything, and fresh statistics for the planner."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from shared.adapters.postgres.pool import Database

COUNTS = """
select json_build_object(
  'sessions', json_build_object('open', (select count(*) from sessions where closed_at is null),
                                'closed', (select count(*) from sessions where closed_at is not null)),
  'messages', (select count(*) from messages),
  'runs', (select coalesce(json_object_agg(state, number), '{}')
           from (select state, count(*) as number from runs group by state order by state) r),
  'costs', (select count(*) from costs),
  'files', (select count(*) from files))
"""
HOT = ("conversations", "sessions", "runs", "messages", "effects", "reservations", "costs", "events", "idempotency")
ANALYZE = f"analyze {', '.join(HOT)}"
PATIENCE = timedelta(seconds=30)


class PostgresFigures:
    """``Figures`` of the consolidator's ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def counts(self) -> Mapping[str, Any]:
        """See ``Figures.counts``."""
        counted: Mapping[str, Any] = await self._database.value(COUNTS, patience=PATIENCE)
        return counted

    async def analyze(self) -> Sequence[str]:
        """See ``Figures.analyze``."""
        await self._database.rows(ANALYZE, patience=PATIENCE)
        return HOT
