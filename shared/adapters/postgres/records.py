"""Rows for people: runs, calls, sessions, files."""

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from uuid import UUID

from shared.adapters.postgres.history import NAMED, no_child
from shared.adapters.postgres.pool import Database
from shared.domain.money import Usage
from shared.domain.run import OPEN_STATES, Address, RunState
from shared.ports.history import ModelCost, StoredRun
from shared.ports.records import Bill, KnownFiles, OpenSession, Turn, Turns, Whose

COLUMNS_OF_RUN = (
    "id, conversation, principal, session, ordinal, kind, state, attempts, accepted_at, finished_at, outcome"
)
LISTED = "case when principal like 'key:%%' then principal else '' end"
"""In whose list a run stands, as the index ``runs_of_principal`` has it."""

MOST_RUNS = 200
# Ids begin with the time. Each list is read from its newest end, and of a few lists the newest are taken: one condition
# that says whose in every case would be answered by reading everybody's. A plan is made without the values; it takes
# the index because the order is that of the index. With an equation it would not: then the primary key has that order,
# too, and the plan goes through everybody's runs in the hope to meet enough of the right ones soon.


def _newest(condition: str) -> str:
    """The newest runs of some lists that meet a condition of an index, and are in a state, if one is asked for."""
    return f"""
select r.* from unnest(%s::text[]) as mine (list) cross join lateral (
  select {COLUMNS_OF_RUN} from runs
  where {condition} and {LISTED} between mine.list and mine.list and (%s::text is null or state = %s)
  order by {LISTED} desc, id desc limit {MOST_RUNS}
) r order by r.id desc limit %s
"""  # noqa: S608 - all of it is ours


RUNS = _newest("true")
RUNS_ENDED_OTHERWISE = _newest("state in ('failed', 'cancelled', 'merged', 'dead')")
OPEN = "state in ('accepted', 'running', 'waiting')"
RUNS_OPEN = f"""
select {COLUMNS_OF_RUN} from runs
where {OPEN} and state = %s and {LISTED} = any(%s::text[]) order by id desc limit %s
"""  # noqa: S608 - as above; there are as many as may be open, and an index has just those
RUNS_OF_SESSION = f"""
select * from (
  select {COLUMNS_OF_RUN} from runs
  where conversation = (select conversation from sessions where id = %s) and session = %s
    and {LISTED} = any(%s::text[]) and (%s::text is null or state = %s)
  order by ordinal desc limit {MOST_RUNS}
) r limit %s
"""  # noqa: S608 - all of it is ours
MONTH = """
from costs where at >= %s::date::timestamp at time zone 'UTC'
  and at < (%s::date + interval '1 month') at time zone 'UTC'
  and (%s::text is null or principal = %s or (%s and principal not like 'key:%%'))
"""
MODELS = f"""
select model, sum(input_tokens)::bigint, sum(output_tokens)::bigint, sum(cache_read_tokens)::bigint,
       sum(cache_write_tokens)::bigint, sum(cost), currency, count(*) {MONTH}
group by model, currency order by sum(cost) desc, model
"""
COLUMNS = (
    "call_id", "at", "run", "session", "conversation", "call_type", "provider", "model", "input_tokens",
    "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost", "currency", "latency_ms", "estimated",
)  # fmt: skip
CALLS = f"select {', '.join(COLUMNS)} {MONTH} order by at desc limit %s"
TURNS = """
select r.traceparent, k.latency_ms, k.input_tokens, k.output_tokens, k.cache_read_tokens, k.cache_write_tokens,
       m.body is not null, coalesce(m.body -> 'tool_calls', '[]')
from runs r
left join costs k on k.run = r.id
left join lateral (  -- an answer and what it has cost are stored in one transaction
  select body from messages where run = k.run and created_at = k.at and role = 'assistant' limit 1
) m on true
where r.id = %s order by k.at desc limit 200
"""
LARGEST = """
select s.id, c.key, c.channel, c.principal, c.contact
from sessions s join conversations c on c.key = s.conversation
where s.closed_at is null and c.channel <> 'system' and not starts_with(c.contact, 'system-')
  and (%s::text is null or c.principal = %s or (%s and c.principal not like 'key:%%'))
order by s.context_tokens desc, s.updated_at desc limit 1
"""
IDLE = f"""
select s.conversation from sessions s join conversations c on c.key = s.conversation
where s.closed_at is null and s.updated_at < now() - %s and {no_child("s.conversation")}
  and (%s::text is null or c.principal = %s or (%s and c.principal not like 'key:%%'))
  and not exists (select 1 from runs r where r.conversation = s.conversation
                  and (r.state in ('accepted', 'running', 'waiting')
                       or r.ordinal = c.last_ordinal and r.finished_at > now() - %s))
order by s.updated_at limit %s
"""  # noqa: S608 - as above
FILES = "select count(*), max(scanned_at), (select count(*) from chunks) from files"


class PostgresRecords:
    """``Records`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def runs(
        self, whose: Whose, *, session: UUID | None, state: RunState | None, limit: int
    ) -> Sequence[StoredRun]:
        """See ``Records.runs``."""
        lists = [*([whose.principal] if whose.principal else []), *([""] if whose.keyless else [])]
        if session is not None:
            rows = await self._database.rows(RUNS_OF_SESSION, (session, session, lists, state, state, limit))
        elif state in OPEN_STATES:
            rows = await self._database.rows(RUNS_OPEN, (state, lists, limit))
        else:
            query = RUNS if state in {None, "done"} else RUNS_ENDED_OTHERWISE
            rows = await self._database.rows(query, (lists, state, state, limit))
        return [StoredRun(*row) for row in rows]

    async def bill(self, whose: Whose, *, month: date, limit: int) -> Bill:
        """See ``Records.bill``."""
        parameters = (month, month, whose.principal, whose.principal, whose.keyless)
        models = [
            ModelCost(row[0], Usage(row[1], row[2], row[3], row[4]), Decimal(row[5]), row[6], row[7])
            for row in await self._database.rows(MODELS, parameters)
        ]
        calls = await self._database.rows(CALLS, (*parameters, limit))
        return Bill(models, [dict(zip(COLUMNS, row, strict=True)) for row in calls])

    async def turns(self, run: UUID) -> Turns:
        """See ``Records.turns``."""
        rows = await self._database.rows(TURNS, (run,))
        turns = [
            Turn(row[1], Usage(*row[2:6]), [call["name"] for call in row[7]] if row[6] else None)
            for row in reversed(rows)
            if row[2] is not None
        ]
        return Turns(rows[0][0] if rows else None, turns)

    async def session_of(self, contact: str, whose: Whose) -> UUID | None:
        """See ``Records.session_of``."""
        rows = await self._database.rows(NAMED, (contact, whose.principal, whose.principal, whose.keyless))
        return rows[0][0] if rows else None

    async def largest(self, whose: Whose) -> OpenSession | None:
        """See ``Records.largest``."""
        rows = await self._database.rows(LARGEST, (whose.principal, whose.principal, whose.keyless))
        return OpenSession(rows[0][0], Address(*rows[0][1:])) if rows else None

    async def idle(self, whose: Whose, *, longer_than: timedelta, limit: int) -> Sequence[str]:
        """See ``Records.idle``."""
        parameters = (longer_than, whose.principal, whose.principal, whose.keyless, longer_than, limit)
        return [row[0] for row in await self._database.rows(IDLE, parameters)]

    async def files(self) -> KnownFiles:
        """See ``Records.files``."""
        return KnownFiles(*(await self._database.rows(FILES))[0])
