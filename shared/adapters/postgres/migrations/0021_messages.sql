-- What an agent tells people while it works: words for the one it answers, at once, and words for others, in their line; and
-- reactions to what they wrote.
--
-- The body of a reaction is {text: '', reaction: {message, emoji}}. A bridge keeps what the channel calls a message as
-- `message_id` in the message of its run.

-- What the acts below keep of a run: whoever would write to people without an end is stopped.
create table told_people (           -- written by lucyd_act_message and lucyd_act_react
  run      uuid not null references runs (id) on delete cascade,
  position integer not null,         -- from 1
  place    text not null,            -- the conversation that it went to
  outbound uuid,                     -- the run that carries words there; null: they went into the run's own chat, or it is a reaction
  primary key (run, position)
);
comment on table told_people is
  'Messages and reactions that an agent has sent to people while it answered somebody. They go with the run.';

alter table deliveries
  drop constraint deliveries_kind_check,
  add constraint deliveries_kind_check check (kind in ('reply', 'notice', 'question', 'reaction'));

-- For whom a run works in the end: itself, or the root of the sub-agents that it is one of.
create function lucyd_root_of(p_run uuid) returns runs language sql stable as $$
  select r.* from runs r where r.id = coalesce((select root from children where run = p_run), p_run)
$$;

-- The key of a conversation, if a message of this principal may go there: one of its own, and with `p_keyless` also one that
-- belongs to no API key. Null: there is none, or it is not within reach, which to whoever asks is the same.
create function lucyd_within_reach(p_place text, p_principal text, p_keyless boolean) returns text language sql stable as $$
  select key from conversations
  where key = p_place and (principal = p_principal or (p_keyless and not starts_with(principal, 'key:')))
$$;

-- The act of the tool `message`: `name` and `place` of whom it is for (without `place`: whoever the run answers), the `text`,
-- `blocks` (attachments, as a message has them, whose bytes are kept already), `parts` (the same as bodies of deliveries for
-- the own chat), `keyless` (what may be reached), `most` (so many per run), `capacity` and `seconds` of the outbound run.
--
-- Words for the own chat are deliveries at once: an outbound run would wait behind the one that sends it. All others become a run
-- of the kind `outbound`, so that they stand in their receiver's session; its id is made of the call's key.
create function lucyd_act_message(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
declare
  v_run uuid := (p_context ->> 'run')::uuid;
  v_name text := p_arguments ->> 'name';
  v_root runs;
  v_count integer;
  v_to conversations;
  v_channel text;
  v_outbound uuid := md5('message of ' || (p_context ->> 'key'))::uuid;
begin
  select coalesce(max(position), 0) into v_count from told_people where run = v_run;
  if v_count >= (p_arguments ->> 'most')::integer then
    return jsonb_build_object('error', format('this run has told people something %s times already, and no more may be', v_count));
  end if;
  if p_arguments ->> 'place' is null then
    v_root := lucyd_root_of(v_run);
    select channel into v_channel from conversations where key = v_root.conversation;
    if not lucyd_is_carried(v_channel) then
      return jsonb_build_object('error', format(
        'nothing was sent: you answer over %s, where nobody carries words out before your reply is fetched. Say it in your reply',
        v_channel));
    end if;
    perform lucyd_add_parts(v_root, v_channel, 'reply', p_arguments -> 'parts');
    insert into told_people (run, position, place) values (v_run, v_count + 1, v_root.conversation);
    return jsonb_build_object('text', format('Sent to %s: it goes out now, before your reply.', v_name),
                              'nudge', jsonb_build_array(v_channel));
  end if;
  select * into v_to from conversations
    where key = lucyd_within_reach(p_arguments ->> 'place', p_context ->> 'principal', (p_arguments ->> 'keyless')::boolean);
  if not found then
    return jsonb_build_object('error', format(
      'nothing was sent: %s has not written to you yet, and only whoever has can be written to', v_name));
  end if;
  begin
    perform lucyd_accept_2(
      v_outbound, v_to.key, v_to.channel, v_to.principal, v_to.contact, 'outbound', 'system', 'full', p_context ->> 'sender',
      jsonb_strip_nulls(jsonb_build_object('text', p_arguments -> 'text', 'attachments', p_arguments -> 'blocks')), 'queue', 5,
      make_interval(secs => (p_arguments ->> 'seconds')::double precision), null, null, null, null,
      (p_arguments ->> 'capacity')::integer, null, null, null, null);
  exception when sqlstate 'LU001' then
    return jsonb_build_object('error', format('nothing was sent: too much waits to be told to %s already', v_name));
  end;
  update blobs b set run = v_outbound, position = f.position - 1
    from jsonb_array_elements(coalesce(p_arguments -> 'blocks', '[]')) with ordinality as f (block, position)
    where b.id = (f.block ->> 'id')::uuid and b.run = v_run;
  insert into told_people (run, position, place, outbound) values (v_run, v_count + 1, v_to.key, v_outbound);
  insert into events (conversation, run, type, payload)
    values (v_to.key, v_outbound, 'told_by_agent', jsonb_build_object('run', v_run));
  return jsonb_build_object('text', format('Sent to %s: it goes out in its turn.', v_name),
                            'wake', jsonb_build_array(v_to.key));
end $$;

-- The act of the tool `react`: `name` and `place` as of `message`, the `emoji`, `sender` (whose last message is meant; without it
-- anybody's there), `keyless` and `most`.
create function lucyd_act_react(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
declare
  v_run uuid := (p_context ->> 'run')::uuid;
  v_name text := p_arguments ->> 'name';
  v_root runs := lucyd_root_of(v_run);
  v_place conversations;
  v_count integer;
  v_message text;
  v_body jsonb;
begin
  select coalesce(max(position), 0) into v_count from told_people where run = v_run;
  if v_count >= (p_arguments ->> 'most')::integer then
    return jsonb_build_object('error', format('this run has told people something %s times already, and no more may be', v_count));
  end if;
  select * into v_place from conversations
    where key = case when p_arguments ->> 'place' is null then v_root.conversation else lucyd_within_reach(
        p_arguments ->> 'place', p_context ->> 'principal', (p_arguments ->> 'keyless')::boolean) end;
  if found and not lucyd_is_carried(v_place.channel) then
    return jsonb_build_object('error', format('there are no reactions over %s', v_place.channel));
  end if;
  select message ->> 'message_id' into v_message from runs
    where conversation = v_place.key and message ? 'message_id'
      and (p_arguments ->> 'sender' is null or sender = p_arguments ->> 'sender')
    order by ordinal desc limit 1;
  if v_message is null then
    return jsonb_build_object('error', format('no message of %s is remembered that could be reacted to', v_name));
  end if;
  v_body := jsonb_build_object('text', '', 'reaction', jsonb_build_object('message', v_message, 'emoji', p_arguments -> 'emoji'));
  if v_place.key = v_root.conversation then
    perform lucyd_add_parts(v_root, v_place.channel, 'reaction', jsonb_build_array(v_body));
  else  -- as of lucyd_send_out: behind what was said there so far
    insert into deliveries (id, conversation, channel, ordinal, part, beside, kind, body)
      values (md5('reaction of ' || (p_context ->> 'key'))::uuid, v_place.key, v_place.channel, v_place.last_ordinal, 32767, true,
              'reaction', v_body);
  end if;
  insert into told_people (run, position, place) values (v_run, v_count + 1, v_place.key);
  return jsonb_build_object('text', format('Reacted with %s to the last message of %s.', p_arguments ->> 'emoji', v_name),
                            'nudge', jsonb_build_array(v_place.channel));
end $$;

-- As in 0020; reactions, too, are left to bridges that know them.
create or replace function lucyd_deliveries_claim_2(
  p_channel text, p_bridge uuid, p_epoch bigint, p_in_hand uuid[], p_limit integer, p_files boolean
) returns json language plpgsql as $$
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
    select distinct on (conversation) id, state, due_at, body ? 'file' or body ? 'reaction' as is_new from deliveries
    where channel = p_channel and state in ('pending', 'sending')
    order by conversation, ordinal, part, beside, created_at
  ), due as (
    select h.id from heads h join deliveries d using (id)
    where h.state = 'pending' and h.due_at <= now() and h.id <> all(p_in_hand) and (p_files or not h.is_new)
      and not exists (
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

-- As in 0004. A reaction is never in doubt: done twice it is there once, so it is due again.
create or replace function lucyd_delivery_doubt(p_id uuid, p_attempt integer, p_error text, p_notice text) returns boolean
language plpgsql as $$
declare
  v_delivery deliveries;
begin
  update deliveries set state = 'pending', bridge = null, due_at = now(), error = p_error
    where id = p_id and attempts = p_attempt and state = 'sending' and body ? 'reaction';
  if found then
    return true;
  end if;
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

-- As in 0020; what a message has sent stays as it was, too: it belongs to another run by then, or a delivery names it.
create or replace function lucyd_keep_blob(
  p_id uuid, p_run uuid, p_type text, p_name text, p_voice boolean, p_data bytea
) returns void language sql as $$
  insert into blobs (id, run, position, content_type, filename, is_voice, size, data)
    values (p_id, p_run, 0, p_type, p_name, p_voice, octet_length(p_data), p_data)
    on conflict (id) do update
      set content_type = excluded.content_type, filename = excluded.filename, is_voice = excluded.is_voice,
          size = excluded.size, data = excluded.data
      where blobs.run = p_run
        and not exists (select 1 from reply_files f where f.run = p_run and f.file ->> 'blob' = p_id::text)
        and not exists (select 1 from deliveries d where d.body ? 'file' and d.body #>> '{file,blob}' = p_id::text);
$$;
