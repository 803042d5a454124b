"""Timers over Postgres; see ``0016_schedules.sql`` and ``0022_children_again.sql``."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from shared.adapters.postgres.pool import Database
from shared.domain.person import Identity
from shared.domain.schedule import Schedule, ScheduleState
from shared.ids import new_id
from shared.ports.records import Whose
from shared.ports.schedules import CancelledOr

COLUMNS = """s.id, s.conversation, c.channel, s.principal, s.sender, c.contact, s.kind, s.text, s.due_at, s.created_at,
  s.state, s.target, s.place, s.run, s.tries, s.reason"""
OF_PERSON = f"""
select {COLUMNS} from lucyd_schedules_of(%s, %s) s join conversations c on c.key = s.conversation
where s.state in ('pending', 'failed')
order by s.state <> 'pending', s.due_at, s.id limit 1000
"""  # noqa: S608 - all of it is ours
LISTED = f"""
select {COLUMNS} from schedules s join conversations c on c.key = s.conversation
where (s.principal = %s or (%s and not starts_with(s.principal, 'key:'))) and (%s::text is null or s.state = %s)
order by s.id desc limit %s
"""  # noqa: S608 - as above
CANCEL = "select lucyd_cancel_schedule(%s, %s, %s)"
# One statement: asked again after a broken connection, it gives the same ones the same runs.
TAKE = f"""
with due as (
  select id from schedules where state = 'pending' and look_at <= now() order by look_at, id limit %s
  for update skip locked
), given as (
  select id, row_number() over (order by id) as place from due
), taken as (
  update schedules s set run = coalesce(s.run, (%s::uuid[])[given.place]) from given where s.id = given.id returning s.*
)
select {COLUMNS} from taken s join conversations c on c.key = s.conversation order by s.due_at, s.id
"""  # noqa: S608 - as above
FIRED = """
with fired as (
  update schedules set state = 'fired', run = %s, ended_at = now(), reason = null where id = %s and state = 'pending'
  returning 1
) select count(*) from fired
"""
PUT_OFF = """
with later as (
  update schedules set look_at = now() + %s, tries = tries + 1, reason = %s, run = case when %s then null else run end
  where id = %s and run = %s and state = 'pending' and look_at <= now() returning 1
) select count(*) from later
"""
FAIL = "select lucyd_schedule_failed(%s, %s)"


class PostgresSchedules:
    """``Schedules`` and ``DueSchedules`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_person(self, whose: Identity) -> Sequence[Schedule]:
        """See ``Schedules.of_person``."""
        return [Schedule(*row) for row in await self._database.rows(OF_PERSON, (whose.name, whose.person))]

    async def listed(self, whose: Whose, *, state: ScheduleState | None, limit: int) -> Sequence[Schedule]:
        """See ``Schedules.listed``."""
        parameters = (whose.principal, whose.keyless, state, state, limit)
        return [Schedule(*row) for row in await self._database.rows(LISTED, parameters)]

    async def cancel(self, id: int, whose: Whose) -> CancelledOr:
        """See ``Schedules.cancel``."""
        found = await self._database.value(CANCEL, (id, whose.principal, whose.keyless))
        status: CancelledOr = found["status"]
        return status

    async def take(self, *, limit: int) -> Sequence[Schedule]:
        """See ``DueSchedules.take``."""
        runs = [new_id() for _ in range(limit)]
        return [Schedule(*row) for row in await self._database.rows(TAKE, (limit, runs))]

    async def fired(self, id: int, run: UUID | None) -> None:
        """See ``DueSchedules.fired``."""
        await self._database.value(FIRED, (run, id))

    async def put_off(self, schedule: Schedule, *, after: timedelta, reason: str, certain: bool) -> None:
        """See ``DueSchedules.put_off``."""
        await self._database.value(PUT_OFF, (after, reason, certain, schedule.id, schedule.run))

    async def fail(self, id: int, *, reason: str) -> None:
        """See ``DueSchedules.fail``."""
        await self._database.value(FAIL, (id, reason))
