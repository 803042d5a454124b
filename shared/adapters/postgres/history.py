"""What people read: sessions, messages, costs."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from uuid import UUID

from shared.adapters.postgres.pool import Database
from shared.domain.child_run import CHILD_CONVERSATIONS
from shared.domain.money import Usage
from shared.messages.run_events import ACCEPTED_ID, STEP, accepted_event, id_order
from shared.messages.step_events import events_of_step
from shared.ports.history import HistoryRow, ModelCost, Period, SessionSummary, StoredRun, ToldSoFar
from shared.ports.runs import FinishedRun

RUN = """
select id, conversation, principal, session, ordinal, kind, state, attempts, accepted_at, finished_at, outcome
from runs where id = %s
"""


def no_child(column: str) -> str:
    """Nobody talks in conversations of sub-agents; who knows one by its id or key finds it all the same."""
    return f"not starts_with({column}, '{CHILD_CONVERSATIONS}')"


# First which ones, then their figures: of thousands of open sessions a few hundred are shown.
SESSIONS = f"""
select s.id, s.conversation, s.contact, s.model, s.created_at, s.updated_at,
       (select count(*) from messages m where m.session = s.id and m.ordinal >= s.live_from and not m.dropped),
       s.compaction_count, s.context_tokens, coalesce(k.cost, 0), coalesce(k.currency, 'USD'), s.last_ordinal
from (
  select o.* from sessions o join conversations c on c.key = o.conversation
  where o.closed_at is null and {no_child("o.conversation")}
    and (%s::text is null or c.principal = %s or (%s and c.principal not like 'key:%%'))
  order by o.updated_at desc limit %s
) s
left join lateral (select sum(cost) as cost, max(currency) as currency from costs where session = s.id) k on true
order by s.updated_at desc
"""  # noqa: S608 - all of it is ours
# How well a name fits: whole first, then the bare sender, and only then with upper and lower case as one.
NAMED = f"""
with named as (
  select s.id, s.conversation, s.contact, s.updated_at, case
           when s.id::text = lower(t.name) or s.conversation = t.name then 1
           when not {no_child("s.conversation")} then null
           when s.contact = t.name then 2
           when t.bare = t.name then 3
           when lower(t.name) in (lower(s.conversation), lower(s.contact)) then 4
           when lower(t.bare) = lower(t.name) then 5
         end as distance
  from sessions s join conversations c on c.key = s.conversation
  cross join lateral (select %s::text as name, case when starts_with(s.contact, c.channel || '-')
                                               then substr(s.contact, length(c.channel) + 2) end as bare) t
  where s.closed_at is null
    and (%s::text is null or c.principal = %s or (%s and c.principal not like 'key:%%'))
), nearest as (
  select *, min(contact) over () <> max(contact) over () as differ from named
  where distance = (select min(distance) from named)
)
select id, conversation from nearest where distance < 4 or not differ order by updated_at desc
"""  # noqa: S608 - as above
MESSAGES = """
select newest.created_at, newest.run, newest.body, r.sender, r.source,
       array[k.input_tokens, k.output_tokens, k.cache_read_tokens, k.cache_write_tokens]
from (
  select m.created_at, m.run, m.role, m.body, m.ordinal from messages m join sessions s on s.id = m.session
  join conversations c on c.key = s.conversation
  where m.session = %s and not m.dropped
  and (%s::text is null or c.principal = %s or (%s and c.principal not like 'key:%%'))
  order by m.ordinal desc limit %s
) as newest left join runs r on r.id = newest.run
left join lateral (  -- an answer and what it has cost are stored in one transaction
  select * from costs where run = newest.run and at = newest.created_at and newest.role = 'assistant' limit 1
) k on true
order by newest.ordinal
"""
SAID = "select body ->> 'text' from messages where run = %s and role = 'assistant' and not dropped order by ordinal"
COSTS = """
select model, sum(input_tokens)::bigint, sum(output_tokens)::bigint, sum(cache_read_tokens)::bigint,
       sum(cache_write_tokens)::bigint, sum(cost), currency, count(*)
from costs where at >= case %s when 'today' then date_trunc('day', now(), 'UTC')
                               when 'week' then now() - interval '7 days' else '-infinity' end
  and (%s::text is null or principal = %s)
group by model, currency order by sum(cost) desc, model
"""
COUNTS = f"""
select (select count(*) from sessions where closed_at is null and {no_child("conversation")}),
       count(*) filter (where state = 'accepted'), count(*) filter (where state = 'running')
from runs where state in ('accepted', 'running', 'waiting')
"""  # noqa: S608 - as above

# A step that ends before or at `after` is not read: pieces of text are long, and followers ask each second.
TOLD = """
select r.conversation, r.keep, r.finished_at is not null,
       coalesce(r.terminal, r.epoch || '-18446744073709551615'), r.outcome, steps.told
from runs r left join lateral (
  select jsonb_agg(jsonb_build_array(s.epoch, s.events) order by s.epoch, s.step) as told from (
    select epoch, step, events from run_steps where run = r.id
      and (epoch::numeric, step::numeric) >= (%s::numeric, %s::numeric)
    order by epoch, step limit %s
  ) s
) steps on r.finished_at is not null
  or (split_part(r.keep, '-', 1)::numeric, split_part(r.keep, '-', 2)::numeric)
     > (%s::numeric, %s::numeric)
where r.id = %s
"""
STEPS_AT_ONCE = 50
MOVED = """
select r.id, now.stands from unnest(%s::uuid[], %s::text[]) as asked (id, known)
join runs r on r.id = asked.id
cross join lateral (select case when r.finished_at is null then r.keep else 'ended' end as stands) now
where now.stands <> asked.known
"""


class PostgresHistory:
    """``History`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self, run: UUID) -> StoredRun | None:
        """See ``History.run``."""
        rows = await self._database.rows(RUN, (run,))
        return StoredRun(*rows[0]) if rows else None

    async def sessions(
        self, *, principal: str | None, keyless: bool = False, limit: int = 200
    ) -> Sequence[SessionSummary]:
        """See ``History.sessions``."""
        return [
            SessionSummary(*row) for row in await self._database.rows(SESSIONS, (principal, principal, keyless, limit))
        ]

    async def session_contacts(self, target: str, *, principal: str | None, keyless: bool = False) -> Sequence[str]:
        """See ``History.session_contacts``."""
        rows = await self._database.rows(NAMED, (target, principal, principal, keyless))
        return [conversation for _, conversation in rows]

    async def messages(
        self, session: UUID, *, principal: str | None, keyless: bool = False, limit: int = 2000
    ) -> Sequence[HistoryRow]:
        """See ``History.messages``."""
        rows = await self._database.rows(MESSAGES, (session, principal, principal, keyless, limit))
        return [HistoryRow(at, run, body, sender, source, _usage(used)) for at, run, body, sender, source, used in rows]

    async def said(self, run: UUID) -> Sequence[str]:
        """See ``History.said``."""
        return [row[0] for row in await self._database.rows(SAID, (run,))]

    async def told(self, run: UUID, *, after: str) -> ToldSoFar:
        """See ``Transcripts.told``."""
        epoch, sequence = id_order(after)
        rows = await self._database.rows(TOLD, (epoch, sequence // STEP, STEPS_AT_ONCE, epoch, sequence, run))
        if not rows:
            return ToldSoFar()
        conversation, keep, has_ended, terminal, outcome, steps = rows[0]
        events = [accepted_event(run, conversation)] if id_order(after) < id_order(ACCEPTED_ID) else []
        for its_epoch, stored in steps or ():
            events += events_of_step(its_epoch, stored, after=after)
        if len(steps or ()) == STEPS_AT_ONCE and events:
            return ToldSoFar(events, events[-1].id, more=True)
        if not has_ended:
            return ToldSoFar(events, keep)
        return ToldSoFar(events, terminal, FinishedRun(run, conversation, terminal, outcome or {}))

    async def moved(self, known: Mapping[UUID, str]) -> Mapping[UUID, str]:
        """See ``Transcripts.moved``."""
        return dict(await self._database.rows(MOVED, (list(known), list(known.values()))))

    async def costs(self, period: Period, *, principal: str | None = None) -> Sequence[ModelCost]:
        """See ``History.costs``."""
        return [
            ModelCost(
                model=row[0],
                usage=Usage(row[1], row[2], row[3], row[4]),
                cost=Decimal(row[5]),
                currency=row[6],
                calls=row[7],
            )
            for row in await self._database.rows(COSTS, (period, principal, principal))
        ]

    async def counts(self) -> Mapping[str, int]:
        """See ``History.counts``."""
        rows = await self._database.rows(COUNTS)
        active, queued, running = rows[0]
        return {"active_sessions": active, "queue_depth": queued, "running": running}


def _usage(used: Sequence[int | None]) -> Usage | None:
    """``None`` where the ledger has nothing."""
    counted = [count for count in used if count is not None]
    return Usage(*counted) if counted else None
