"""Throws old rows away, some at a time, so that no statement holds anybody up."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from shared.adapters.postgres.pool import Database

# `any (array (...))` and not `in (...)`: a batch is found row by row then, never by reading a whole table. Where a row
# has no short key it is found by its place; one that was changed meanwhile has another place, and stays. What can come
# back to life is looked at once more when it is thrown away: somebody may have had it in hand between the two.
KEYS = """
with gone as (
  delete from idempotency where ctid = any (array
    (select ctid from idempotency where expires_at < now() order by expires_at limit %s)) and expires_at < now()
  returning 1
) select count(*) from gone
"""
EVENTS = """
with gone as (
  delete from events where id = any (array
    (select id from events where at < now() - %s order by at limit %s)) returning 1
) select count(*) from gone
"""
STEPS = """
with gone as (
  delete from run_steps where ctid = any (array
    (select s.ctid from run_steps s join runs r on r.id = s.run
     where s.stored_at < now() - %s and r.finished_at < now() - %s order by s.stored_at limit %s)) returning 1
) select count(*) from gone
"""
# Those of a run go with it.
SENTENCES = """
with gone as (
  delete from deliveries where id = any (array
    (select id from deliveries where run is null and state not in ('pending', 'sending') and created_at < now() - %s
     order by created_at limit %s)) and state not in ('pending', 'sending') returning 1
) select count(*) from gone
"""
SCHEDULES = """
with gone as (
  delete from schedules where id = any (array
    (select id from schedules where ended_at < now() - %s order by ended_at limit %s)) returning 1
) select count(*) from gone
"""
# The second condition is for what stood in line for as long as it would have been kept.
DELIVERIES = """
with gone as (
  delete from deliveries where id = any (array
    (select id from deliveries where state in ('sent', 'dropped') and created_at < now() - %s
       and coalesce(sent_at, created_at) < now() - %s order by created_at limit %s)) returning 1
) select count(*) from gone
"""
WEBHOOKS = DELIVERIES.replace("deliveries", "webhooks")
WORKERS = """
with gone as (
  delete from workers where id = any (array
    (select id from workers w where w.state in ('stopped', 'fenced') and w.ended_at < now() - %s
       and not exists (select 1 from conversations c where c.owner = w.id) limit %s)) returning 1
) select count(*) from gone
"""
# Before their runs, and a few at a time: each may be megabytes. What somebody may yet be sent is kept.
BLOBS = """
with gone as (
  delete from blobs where id = any (array
    (select b.id from blobs b join runs r on r.id = b.run
     where b.created_at < now() - %s and r.finished_at < now() - %s
       and not exists (select 1 from deliveries d where d.body #>> '{file,blob}' = b.id::text and d.body ? 'file'
                       and d.state not in ('sent', 'dropped'))
     order by b.created_at limit %s)) returning 1
) select count(*) from gone
"""
# Ids are UUIDv7 and begin with the milliseconds of their making, so the primary key finds old runs by age. Those of a
# family go behind whoever asked for them and behind their root: one waits for their ends, the other counts their money.
# And none goes that has still to be found by a child that is to end with it.
RUNS = """
with gone as (
  delete from runs where id = any (array
    (select id from runs r
     where r.id < (lpad(to_hex((extract(epoch from now() - %s) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
       and r.finished_at < now() - %s and r.published_at is not null
       and r.state in ('done', 'failed', 'cancelled', 'merged', 'dead')
       and not exists (select 1 from idempotency i where i.run = r.id)
       and not exists (select 1 from blobs b where b.run = r.id)
       and not exists (select 1 from children c where c.parent = r.id and c.collected_at is null)
       and not exists (select 1 from children c join runs f on f.id = any (array[c.parent, c.root]) where c.run = r.id)
     order by r.id limit %s)) returning 1
) select count(*) from gone
"""

CHILDREN = "select lucyd_forget_children(%s, %s)"

# Within a minute its worker may yet say by itself what the call has cost.
LEFT_OPEN = """
with gone as materialized (
  select array_agg(call_id) as calls, count(*) as number from (
    select call_id from reservations r
    where r.settled_at is null and r.made_at < now() - interval '1 minute'
      and not exists (select 1 from workers w where w.id = r.worker and w.state in ('alive', 'draining'))
    order by call_id limit %s) as due
)
select number from gone, lucyd_settle_unknown(gone.calls)
"""
# Call ids are UUIDv7 as well.
RESERVATIONS = """
with gone as (
  delete from reservations where call_id = any (array
    (select call_id from reservations r
     where r.call_id < (lpad(to_hex((extract(epoch from now() - %s) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
       and r.settled_at < now() - %s and exists (select 1 from costs c where c.call_id = r.call_id)
     order by r.call_id limit %s)) returning 1
) select count(*) from gone
"""
COSTS = """
with gone as (
  delete from costs where call_id = any (array
    (select call_id from costs where at < now() - make_interval(months => %s) order by at limit %s)) returning 1
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

    async def forget_steps(self, *, ended_for: timedelta, limit: int) -> int:
        """See ``Upkeep.forget_steps``."""
        return await self._count(STEPS, (ended_for, ended_for, limit))

    async def forget_events(self, *, older_than: timedelta, limit: int) -> int:
        """See ``Upkeep.forget_events``."""
        return await self._count(EVENTS, (older_than, limit))

    async def forget_sentences(self, *, older_than: timedelta, limit: int) -> int:
        """See ``Upkeep.forget_sentences``."""
        return await self._count(SENTENCES, (older_than, limit))

    async def forget_schedules(self, *, older_than: timedelta, limit: int) -> int:
        """See ``Upkeep.forget_schedules``."""
        return await self._count(SCHEDULES, (older_than, limit))

    async def forget_deliveries(self, *, older_than: timedelta, limit: int) -> int:
        """See ``Upkeep.forget_deliveries``."""
        return await self._count(DELIVERIES, (older_than, older_than, limit))

    async def forget_webhooks(self, *, older_than: timedelta, limit: int) -> int:
        """See ``Upkeep.forget_webhooks``."""
        return await self._count(WEBHOOKS, (older_than, older_than, limit))

    async def forget_workers(self, *, ended_for: timedelta, limit: int) -> int:
        """See ``Upkeep.forget_workers``."""
        return await self._count(WORKERS, (ended_for, limit))

    async def book_left_open(self, *, limit: int) -> int:
        """See ``Upkeep.book_left_open``."""
        return await self._count(LEFT_OPEN, (limit,))

    async def forget_reservations(self, *, older_than: timedelta, limit: int) -> int:
        """See ``Upkeep.forget_reservations``."""
        return await self._count(RESERVATIONS, (older_than, older_than, limit))

    async def forget_costs(self, *, months: int, limit: int) -> int:
        """See ``Upkeep.forget_costs``."""
        return await self._count(COSTS, (months, limit))

    async def forget_runs(self, *, older_than: timedelta, limit: int) -> int:
        """See ``Upkeep.forget_runs``."""
        return await self._count(RUNS, (older_than, older_than, limit))

    async def forget_children(self, *, older_than: timedelta, limit: int) -> int:
        """See ``Upkeep.forget_children``."""
        return await self._count(CHILDREN, (older_than, limit))

    async def forget_blobs(self, *, older_than: timedelta, limit: int) -> int:
        """See ``Upkeep.forget_blobs``."""
        return await self._count(BLOBS, (older_than, older_than, limit))

    async def _count(self, query: str, parameters: Sequence[Any]) -> int:
        return int(await self._database.value(query, parameters, patience=PATIENCE))
