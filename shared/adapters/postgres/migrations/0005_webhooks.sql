-- Webhooks out, as the senders in the gateways see them: taken, sent, put off or given up. And what was given up of all kinds,
-- for people who look at it.

-- Since when it is tried: an operator who asks for a dead one again gives it its whole time again.
alter table webhooks add column tried_since timestamptz not null default now();
create index webhooks_sending on webhooks (claimed_at) where state = 'sending';
create index webhooks_dead on webhooks (created_at) where state = 'dead';
create index deliveries_given_up on deliveries (created_at) where state in ('failed', 'in_doubt');
create index runs_retries on runs (retry_of) where retry_of is not null;

-- Hands out what is due, and what a sender took and never spoke of again: it was killed, or hangs. What this sender took
-- and knows nothing of (p_in_hand) is the answer to an earlier call that got lost.
create function lucyd_take_webhooks(
  p_sender uuid, p_targets text[], p_in_hand uuid[], p_limit integer, p_stale interval
) returns table (id uuid, run uuid, target text, body jsonb, attempts integer, tried_for interval)
language plpgsql as $$
declare
  v_ids uuid[];
begin
  v_ids := array(
    select w.id from webhooks w
    where w.state = 'sending' and w.target = any(p_targets)
      and (w.claimed_at < now() - p_stale or (w.sender = p_sender and w.id <> all(p_in_hand)))
    order by w.claimed_at limit p_limit for no key update skip locked);
  v_ids := v_ids || array(
    select w.id from webhooks w
    where w.state = 'pending' and w.target = any(p_targets) and w.due_at <= now()
    order by w.due_at limit p_limit - cardinality(v_ids) for no key update skip locked);
  return query
    update webhooks w set state = 'sending', sender = p_sender, claimed_at = now(), attempts = w.attempts + 1
      where w.id = any(v_ids)
      returning w.id, w.run, w.target, w.body, w.attempts, now() - w.tried_since;
end $$;

-- The receiver has it: that holds whoever has it in hand by now. Only what an operator dropped stays dropped.
create function lucyd_webhook_sent(p_id uuid, p_status integer) returns boolean language sql as $$
  with told as (
    update webhooks set state = 'sent', sent_at = now(), last_status = p_status, error = null
      where id = p_id and state in ('pending', 'sending', 'dead') returning 1
  )
  select exists (select 1 from told) or exists (select 1 from webhooks where id = p_id and state = 'sent');
$$;

-- A try failed: due again after p_after, or dead where there is none. Heard only from whoever has this very try in hand.
create function lucyd_webhook_failed(
  p_id uuid, p_sender uuid, p_attempts integer, p_after interval, p_status integer, p_error text
) returns boolean language plpgsql as $$
declare
  v_webhook webhooks;
begin
  update webhooks set state = case when p_after is null then 'dead' else 'pending' end,
                      due_at = coalesce(now() + p_after, due_at), last_status = p_status, error = p_error
    where id = p_id and state = 'sending' and sender = p_sender and attempts = p_attempts returning * into v_webhook;
  if not found then
    return false;
  end if;
  if p_after is null then
    insert into events (conversation, run, type, payload)
      select r.conversation, r.id, 'webhook_dead',
             json_build_object('webhook', p_id, 'attempts', p_attempts, 'reason', p_error)
      from runs r where r.id = v_webhook.run;
  end if;
  return true;
end $$;

-- What was given up, of all kinds, with what people ask first. `open`: nobody has said yet what shall become of it.
create view dead_letters as
  select r.id, 'run' as kind, r.dismissed_at is null as open,
         case when r.dismissed_at is null then 'dead'
              when exists (select 1 from runs n where n.retry_of = r.id) then 'retried' else 'dropped' end as state,
         coalesce(r.outcome ->> 'error', '') as reason, r.conversation, r.principal, r.id as run, r.finished_at as at,
         r.attempts, r.suspected_by as worker, r.step, r.kind as about,
         (select n.id from runs n where n.retry_of = r.id order by n.id limit 1) as retried_as
  from runs r where r.state = 'dead'
  union all
  select d.id, 'delivery', d.state in ('failed', 'in_doubt'), d.state, coalesce(d.error, ''), d.conversation, coalesce(c.principal, ''),
         d.run,
         coalesce((select max(e.at) from events e where e.run = d.run and e.type in ('delivery_failed', 'delivery_in_doubt')
                   and e.payload ->> 'delivery' = d.id::text), d.created_at),
         d.attempts, d.bridge, null, d.channel, null
  from deliveries d left join conversations c on c.key = d.conversation where d.state in ('failed', 'in_doubt', 'dropped')
  union all
  select w.id, 'webhook', w.state = 'dead', w.state, coalesce(w.error, ''), r.conversation, r.principal, w.run,
         coalesce((select max(e.at) from events e where e.run = w.run and e.type = 'webhook_dead'
                   and e.payload ->> 'webhook' = w.id::text), w.created_at),
         w.attempts, w.sender, null, w.target, null
  from webhooks w join runs r on r.id = w.run where w.state in ('dead', 'dropped');

-- Something given up goes out once more, due now. A run is not revived: a new one is accepted in its place. A delivery keeps
-- its count of attempts, which tells its claims apart. False: there was nothing to revive.
create function lucyd_revive(p_kind text, p_id uuid) returns boolean language plpgsql as $$
declare
  v_run uuid;
begin
  if p_kind = 'delivery' then
    update deliveries set state = 'pending', bridge = null, due_at = now(), error = null
      where id = p_id and state in ('failed', 'in_doubt') returning run into v_run;
  elsif p_kind = 'webhook' then
    update webhooks set state = 'pending', sender = null, attempts = 0, due_at = now(), tried_since = now(), error = null
      where id = p_id and state = 'dead' returning run into v_run;
  else
    return false;
  end if;
  if not found then
    return false;
  end if;
  insert into events (conversation, run, type, payload)
    select r.conversation, r.id, p_kind || '_revived', json_build_object(p_kind, p_id) from runs r where r.id = v_run;
  return true;
end $$;

-- Somebody has looked at it, and nothing more shall come of it. False: it was not there, or not given up, or dropped before.
create function lucyd_drop(p_kind text, p_id uuid) returns boolean language plpgsql as $$
declare
  v_run uuid;
begin
  if p_kind = 'run' then
    update runs set dismissed_at = now() where id = p_id and state = 'dead' and dismissed_at is null returning id into v_run;
  elsif p_kind = 'delivery' then
    update deliveries set state = 'dropped' where id = p_id and state in ('failed', 'in_doubt') returning run into v_run;
  elsif p_kind = 'webhook' then
    update webhooks set state = 'dropped' where id = p_id and state = 'dead' returning run into v_run;
  else
    return false;
  end if;
  if not found then
    return false;
  end if;
  insert into events (conversation, run, type, payload)
    select r.conversation, r.id, p_kind || '_dismissed', json_build_object(p_kind, p_id) from runs r where r.id = v_run;
  return true;
end $$;
