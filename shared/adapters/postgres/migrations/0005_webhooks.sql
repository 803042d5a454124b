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
