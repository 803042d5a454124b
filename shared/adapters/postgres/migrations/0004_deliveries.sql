-- How deliveries go out: one bridge leads a channel, claims what is due, and says what became of it. And what the Telegram
-- bridge remembers.
--
-- `attempts` is the proof of a claim: each claim raises it, and who names another number may say nothing about the row.

create table channel_leaders (       -- written by lucyd_lead_channel
  channel text primary key,
  bridge  uuid not null,
  epoch   bigint not null,
  since   timestamptz not null default now()
);

create table telegram_state (        -- written by services.telegram_bridge
  bot         bigint primary key,
  next_update bigint not null,       -- all before it were accepted
  updated_at  timestamptz not null default now()
);

-- What a bridge puts in by itself stands beside the part it speaks of and needs no number of its own.
alter table deliveries
  add column beside boolean not null default false,
  drop constraint deliveries_conversation_ordinal_part_key;
create unique index deliveries_order on deliveries (
  conversation, ordinal, part, (case when beside then id else '00000000-0000-0000-0000-000000000000'::uuid end));
create index deliveries_line on deliveries (channel, conversation, ordinal, part) where state in ('pending', 'sending');

-- From here on this bridge leads, under a new epoch, unless another one does that is alive. Who drains has given the lead up.
-- Null: another leads, or this one is not a living one.
create function lucyd_lead_channel(p_channel text, p_bridge uuid) returns bigint language plpgsql as $$
declare
  v_leader channel_leaders;
begin
  perform 1 from workers where id = p_bridge and state = 'alive' for key share;
  if not found then
    return null;
  end if;
  insert into channel_leaders (channel, bridge, epoch) values (p_channel, p_bridge, 0) on conflict (channel) do nothing;
  select * into v_leader from channel_leaders where channel = p_channel for update;
  if v_leader.bridge <> p_bridge and exists (select 1 from workers where id = v_leader.bridge and state = 'alive') then
    return null;
  end if;
  update channel_leaders set bridge = p_bridge, epoch = epoch + 1, since = now()
    where channel = p_channel returning * into v_leader;
  return v_leader.epoch;
end $$;

-- Takes the next delivery of up to `p_limit` conversations: what is due, stands first in its conversation, and has nothing of
-- that conversation under way. Null: this bridge does not lead, or was fenced, or drains.
create function lucyd_deliveries_claim(p_channel text, p_bridge uuid, p_epoch bigint, p_in_hand uuid[], p_limit integer)
returns json language plpgsql as $$
declare
  v_claimed json;
begin
  -- As in lucyd_claim: no claim slips in behind the back of a fence, nor of a new leader.
  perform 1 from workers where id = p_bridge and state = 'alive' for key share;
  if not found then
    return null;
  end if;
  perform 1 from channel_leaders where channel = p_channel and bridge = p_bridge and epoch = p_epoch for share;
  if not found then
    return null;
  end if;
  -- Claimed, but the answer got lost on its way: nobody has begun to send it.
  update deliveries set state = 'pending', bridge = null
    where channel = p_channel and state = 'sending' and bridge = p_bridge and id <> all(p_in_hand);
  with heads as (
    select distinct on (conversation) id, state, due_at from deliveries
    where channel = p_channel and state in ('pending', 'sending')
    order by conversation, ordinal, part, beside, created_at
  ), due as (
    select h.id from heads h join deliveries d using (id)
    where h.state = 'pending' and h.due_at <= now() and h.id <> all(p_in_hand) and not exists (
      select 1 from deliveries o
      where o.channel = p_channel and o.conversation = d.conversation and o.state = 'sending')
    order by h.due_at limit p_limit
  ), taken as (
    update deliveries d set state = 'sending', bridge = p_bridge, bridge_epoch = p_epoch, attempts = d.attempts + 1
      from due where d.id = due.id and d.state = 'pending' returning d.*
  )
  select coalesce(json_agg(json_build_object('id', id, 'conversation', conversation, 'kind', kind, 'body', body,
                                             'attempt', attempts, 'run', run)), '[]') into v_claimed from taken;
  return v_claimed;
end $$;

-- The channel has it. Also true for what was in doubt meanwhile: who sent it knows better; a notice that was not sent yet is
-- dropped.
create function lucyd_delivery_sent(p_id uuid, p_attempt integer, p_external text) returns boolean language plpgsql as $$
begin
  update deliveries set state = 'sent', external_id = p_external, sent_at = now(), error = null
    where id = p_id and attempts = p_attempt and state in ('sending', 'in_doubt');
  if not found then
    return exists (select 1 from deliveries where id = p_id and attempts = p_attempt and state = 'sent');
  end if;
  update deliveries set state = 'dropped'
    where id = md5(p_id::text || ':' || p_attempt)::uuid and state = 'pending';
  return true;
end $$;

-- It was refused for now, and certainly not sent.
create function lucyd_delivery_put_off(p_id uuid, p_attempt integer, p_after interval, p_error text) returns boolean
language plpgsql as $$
begin
  update deliveries set state = 'pending', bridge = null, due_at = now() + p_after, error = p_error
    where id = p_id and attempts = p_attempt and state = 'sending';
  return found;
end $$;

-- It was refused for good.
create function lucyd_delivery_failed(p_id uuid, p_attempt integer, p_error text) returns boolean language plpgsql as $$
declare
  v_delivery deliveries;
begin
  update deliveries set state = 'failed', error = p_error
    where id = p_id and attempts = p_attempt and state = 'sending' returning * into v_delivery;
  if not found then
    return false;
  end if;
  insert into events (conversation, run, type, payload)
    values (v_delivery.conversation, v_delivery.run, 'delivery_failed',
            json_build_object('delivery', p_id, 'kind', v_delivery.kind, 'attempt', p_attempt));
  return true;
end $$;

-- Nobody can say whether it was sent. It is not sent again by itself; the person is asked, once for each such attempt. Of a
-- notice no notice is given.
create function lucyd_delivery_doubt(p_id uuid, p_attempt integer, p_error text, p_notice text) returns boolean
language plpgsql as $$
declare
  v_delivery deliveries;
begin
  update deliveries set state = 'in_doubt', error = p_error
    where id = p_id and attempts = p_attempt and state = 'sending' returning * into v_delivery;
  if not found then
    return false;
  end if;
  insert into events (conversation, run, type, payload)
    values (v_delivery.conversation, v_delivery.run, 'delivery_in_doubt',
            json_build_object('delivery', p_id, 'kind', v_delivery.kind, 'attempt', p_attempt));
  if v_delivery.kind <> 'notice' then
    insert into deliveries (id, run, conversation, channel, ordinal, part, beside, kind, body)
      values (md5(p_id::text || ':' || p_attempt)::uuid, v_delivery.run, v_delivery.conversation, v_delivery.channel,
              v_delivery.ordinal, v_delivery.part, true, 'notice',
              jsonb_build_object('text', p_notice, 'again', p_id, 'attempt', p_attempt))
      on conflict (id) do nothing;
  end if;
  return true;
end $$;

-- What bridges that live no more had under way. Safe to ask at any time, by anybody; how many it found.
create function lucyd_deliveries_doubt(p_channel text, p_error text, p_notice text) returns integer language plpgsql as $$
declare
  v_delivery record;
  v_count integer := 0;
begin
  for v_delivery in
    select d.id, d.attempts from deliveries d
    where d.channel = p_channel and d.state = 'sending'
      and not exists (select 1 from workers w where w.id = d.bridge and w.state in ('alive', 'draining'))
    order by d.id
  loop
    if lucyd_delivery_doubt(v_delivery.id, v_delivery.attempts, p_error, p_notice) then
      v_count := v_count + 1;
    end if;
  end loop;
  return v_count;
end $$;

-- The person asks for what was in doubt once more, by the notice that offered it, which is good for one time. `p_place` is the
-- conversation, or all conversations of its chat. Tells 'again', 'used' or 'unknown'.
create function lucyd_delivery_again(p_notice uuid, p_channel text, p_place text) returns text language plpgsql as $$
declare
  v_notice deliveries;
begin
  select * into v_notice from deliveries
    where id = p_notice and channel = p_channel and body ? 'again'
      and (conversation = p_place or starts_with(conversation, p_place || ':'));
  if not found then
    return 'unknown';
  end if;
  update deliveries set state = 'pending', bridge = null, due_at = now()
    where id = (v_notice.body ->> 'again')::uuid and attempts = (v_notice.body ->> 'attempt')::integer
      and state = 'in_doubt';
  if not found then
    return 'used';
  end if;
  insert into events (conversation, run, type, payload)
    values (v_notice.conversation, v_notice.run, 'delivery_asked_again',
            json_build_object('delivery', v_notice.body ->> 'again'));
  return 'again';
end $$;

-- A sentence of the bridge's own, for which there is no run. The same id is put in once.
create function lucyd_delivery_notice(p_id uuid, p_conversation text, p_channel text, p_body jsonb) returns boolean
language plpgsql as $$
begin
  insert into deliveries (id, conversation, channel, ordinal, part, beside, kind, body)
    values (p_id, p_conversation, p_channel,
            coalesce((select last_ordinal from conversations where key = p_conversation), 0), 0, true, 'notice', p_body)
    on conflict (id) do nothing;
  return found;
end $$;
