"""The rows of one run, in one statement."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from shared.adapters.postgres.pool import Database
from shared.ports.dead_letters import Scope
from shared.ports.stories import StoryRows

MATCHING = """
select id from runs where id between %s and %s
  and (%s::text is null or principal = %s or (%s and not starts_with(principal, 'key:'))) order by id limit %s
"""
# Call ids are UUIDv7 and begin with the milliseconds of their making, so the primary key finds those of a run by its
# time; other machines' clocks may be off a little.
ROWS = """
with the_run as (
  select r.*,
    (lpad(to_hex((extract(epoch from r.accepted_at - interval '10 minutes') * 1000)::bigint), 12, '0')
     || repeat('0', 20))::uuid as first_call,
    (lpad(to_hex((extract(epoch from coalesce(r.finished_at, now()) + interval '10 minutes') * 1000)::bigint), 12, '0')
     || repeat('f', 20))::uuid as last_call
  from runs r where r.id = %s
),
calls as (
  select coalesce(c.call_id, v.call_id) as call_id, v.worker, v.made_at, v.settled_at, v.worst_case, c.at, c.call_type,
         coalesce(c.model, v.model) as model, c.input_tokens, c.output_tokens, c.cache_read_tokens,
         c.cache_write_tokens, c.cost, coalesce(c.currency, v.currency) as currency, c.estimated, c.latency_ms
  from (select v.* from reservations v, the_run r
        where v.run = r.id and v.call_id between r.first_call and r.last_call) v
  full join (select c.* from costs c, the_run r where c.run = r.id) c using (call_id)
),
told as (select e.id, e.at, e.type, e.payload from events e, the_run r where e.run = r.id)
select now(), json_build_object(
  'run', (select json_build_object(
     'id', r.id, 'conversation', r.conversation, 'ordinal', r.ordinal, 'kind', r.kind, 'state', r.state,
     'source', r.source, 'tier', r.tier, 'attempts', r.attempts, 'step', r.step, 'when_busy', r.when_busy,
     'suspected', r.suspected, 'wait_reason', r.wait_reason, 'wake_at', r.wake_at, 'merged_into', r.merged_into,
     'retries', r.retries, 'retry_of', r.retry_of, 'accepted_at', r.accepted_at, 'claimed_at', r.claimed_at,
     'finished_at', r.finished_at, 'published_at', r.published_at, 'deadline_at', r.deadline_at,
     'cancel_asked_at', r.cancel_asked_at, 'dismissed_at', r.dismissed_at, 'error', r.outcome ->> 'error',
     'turns', r.outcome -> 'turns', 'silent', r.outcome -> 'silent',
     'retried_as', (select n.id from runs n where n.retry_of = r.id order by n.id limit 1))),
  'key', (select json_build_object('scope', i.scope, 'expires_at', i.expires_at) from idempotency i
          where i.run = r.id limit 1),
  'merged', (select coalesce(json_agg(json_build_object('run', m.id, 'ordinal', m.ordinal, 'accepted_at', m.accepted_at)
                                      order by m.ordinal), '[]') from runs m where m.merged_into = r.id),
  'events', (select coalesce(json_agg(json_build_object('at', t.at, 'type', t.type, 'payload', t.payload)
                                      order by t.id), '[]') from told t),
  'steps', (select coalesce(json_agg(json_build_object('step', s.step, 'epoch', s.epoch, 'stored_at', s.stored_at)
                                     order by s.stored_at, s.step), '[]') from run_steps s where s.run = r.id),
  'effects', (select coalesce(json_agg(json_build_object(
                'tool', f.tool, 'class', f.class, 'state', f.state, 'step', f.step, 'call_index', f.call_index,
                'epoch', f.epoch, 'intended_at', f.intended_at, 'ended_at', f.ended_at)
                order by f.intended_at, f.step, f.call_index), '[]') from effects f where f.run = r.id),
  'approvals', (select coalesce(json_agg(json_build_object(
                  'tool', a.tool, 'state', a.state, 'step', a.step, 'call_index', a.call_index, 'asked_at', a.asked_at,
                  'decided_at', a.decided_at, 'decided_by', a.decided_by) order by a.asked_at, a.call_index), '[]')
                from approvals a where a.run = r.id),
  'calls', (select coalesce(json_agg(json_build_object(
              'call_id', k.call_id, 'worker', k.worker, 'made_at', k.made_at, 'settled_at', k.settled_at,
              'worst_case', k.worst_case::text, 'at', k.at, 'call_type', k.call_type, 'model', k.model,
              'input_tokens', k.input_tokens, 'output_tokens', k.output_tokens,
              'cache_read_tokens', k.cache_read_tokens, 'cache_write_tokens', k.cache_write_tokens,
              'cost', k.cost::text, 'currency', k.currency, 'estimated', k.estimated, 'latency_ms', k.latency_ms)
              order by coalesce(k.at, k.made_at), k.call_id), '[]') from calls k),
  'workers', (select coalesce(json_agg(json_build_object(
                'worker', w.id, 'host', w.host, 'pid', w.pid, 'state', w.state, 'ended_at', w.ended_at)), '[]')
              from workers w
              where w.id::text in (select t.payload ->> 'worker' from told t union select k.worker::text from calls k)),
  'deliveries', (select coalesce(json_agg(json_build_object(
                   'delivery', d.id, 'channel', d.channel, 'part', d.part, 'kind', d.kind, 'state', d.state,
                   'attempts', d.attempts, 'due_at', d.due_at, 'error', d.error, 'created_at', d.created_at,
                   'sent_at', d.sent_at) order by d.created_at, d.part), '[]') from deliveries d where d.run = r.id),
  'webhooks', (select coalesce(json_agg(json_build_object(
                 'webhook', h.id, 'target', h.target, 'state', h.state, 'attempts', h.attempts, 'due_at', h.due_at,
                 'last_status', h.last_status, 'error', h.error, 'created_at', h.created_at, 'sent_at', h.sent_at)
                 order by h.created_at), '[]') from webhooks h where h.run = r.id))
from the_run r
"""


class PostgresStories:
    """``Stories`` of the ports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def matching(self, first: UUID, last: UUID, scope: Scope, *, limit: int = 5) -> Sequence[UUID]:
        """See ``Stories.matching``."""
        parameters = (first, last, scope.principal, scope.principal, scope.keyless, limit)
        return [row[0] for row in await self._database.rows(MATCHING, parameters)]

    async def rows(self, run: UUID) -> StoryRows | None:
        """See ``Stories.rows``."""
        rows = await self._database.rows(ROWS, (run,))
        if not rows:
            return None
        now: datetime = rows[0][0]
        return StoryRows(now, **rows[0][1])
