"""Throws old rows away, some at a time, so that no statement holds anybody up."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from shared.adapters.postgres.pool import Database

KEYS = """
with gone as (
  delete from idempotency where (scope, key) in
    (select scope, key from idempotency where expires_at < now() order by expires_at limit %s) returning 1
) select count(*) from gone
"""
EVENTS = """
with gone as (
  delete from events where id in (select id from events where at < now() - %s order by at limit %s) returning 1
) select count(*) from gone
"""
WORKERS = """
with gone as (
  delete from workers where id in
    (select id from workers w where w.state in ('stopped', 'fenced') and w.ended_at < now() - %s
       and not exists (select 1 from conversations c where c.owner = w.id) limit %s) returning 1
) select count(*) from gone
"""
# Ids are UUIDv7 and begin with the milliseconds of their making, so the primary key finds old runs by age.
RUNS = """
with gone as (
  delete from runs where id in
    (select id from runs r
     where r.id < (lpad(to_hex((extract(epoch from now() - %s) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
       and r.finished_at < now() - %s and r.published_at is not null
       and r.state in ('done', 'failed', 'cancelled', 'merged', 'dead')
       and not exists (select 1 from idempotency i where i.run = r.id)
     order by r.id limit %s) returning 1
) select count(*) from gone
"""

PATIENCE = timedelta(seconds=10)


class PostgresUpkeep:
    """``Upkeep`` of the scheduler's ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def forget_keys(self, *, limit: int) -> int:
        """See ``Upkeep.forget_keys``."""
        return await self._count(KEYS, (limit,))

    async def forget_events(self, *, older_than: timedelta, limit: int) -> int:
        """See ``Upkeep.forget_events``."""
        return await self._count(EVENTS, (older_than, limit))

    async def forget_workers(self, *, ended_for: timedelta, limit: int) -> int:
        """See ``Upkeep.forget_workers``."""
        return await self._count(WORKERS, (ended_for, limit))

    async def forget_runs(self, *, older_than: timedelta, limit: int) -> int:
        """See ``Upkeep.forget_runs``."""
        return await self._count(RUNS, (older_than, older_than, limit))

    async def _count(self, query: str, parameters: Sequence[Any]) -> int:
        return int(await self._database.value(query, parameters, patience=PATIENCE))
