-- For those who operate the house over HTTP: runs are listed without a look at everybody else's, work that was asked for
-- twice is done once, resting sessions are closed only while they rest.

-- What belongs to no API key (channels, schedules) is one list: the operator's token alone sees it. Those of a session are
-- found by their conversation: every change of a run's row writes to each index that it stands in.
create index runs_of_principal on runs ((case when principal like 'key:%' then principal else '' end), id);
-- Few end otherwise than well: they are found without a look at all that did.
create index runs_ended_otherwise on runs ((case when principal like 'key:%' then principal else '' end), id)
  where state in ('failed', 'cancelled', 'merged', 'dead');

-- The reset of a session that rests: since its last step, and since its last run has ended. A message that came since it was
-- found resting is seen here: accept locks the same row.
create function lucyd_reset_resting(
  p_conversation text, p_run uuid, p_source text, p_sender text, p_reason text, p_rested interval
) returns json language plpgsql as $$
begin
  perform 1 from conversations where key = p_conversation for no key update;
  if not exists (select 1 from runs where id = p_run) and (
    exists (select 1 from runs where conversation = p_conversation and state in ('accepted', 'running', 'waiting'))
    or not exists (select 1 from sessions
                   where conversation = p_conversation and closed_at is null and updated_at <= now() - p_rested)
    or exists (select 1 from runs where conversation = p_conversation and finished_at > now() - p_rested
               and ordinal = (select last_ordinal from conversations where key = p_conversation))
  ) then
    return json_build_object('reset', false);
  end if;
  return lucyd_reset_2(p_conversation, p_run, p_source, p_sender, p_reason);
end $$;

-- What was answered to work that is no message; there it stands in the run.
alter table idempotency add column answer jsonb;

-- Work under an idempotency key: the id it goes by, which for all who repeat it is that of the first, and its answer once
-- there is one.
create function lucyd_begin_work(p_scope text, p_key text, p_body_hash bytea, p_id uuid, p_lives interval) returns json
language plpgsql as $$
declare
  v_key idempotency;
begin
  insert into idempotency as i (scope, key, body_hash, run, expires_at)
    values (p_scope, p_key, p_body_hash, p_id, now() + p_lives)
    on conflict (scope, key) do update
      set body_hash = excluded.body_hash, run = excluded.run, expires_at = excluded.expires_at, answer = null
      where i.expires_at < now();
  select * into v_key from idempotency where scope = p_scope and key = p_key;
  if v_key.body_hash <> p_body_hash then
    raise exception 'the idempotency key was used with another body' using errcode = 'LU002';
  end if;
  return json_build_object('id', v_key.run, 'answer', v_key.answer);
end $$;

-- Words for people that answer nothing, behind what was said in the conversation so far. The same ids are put in once. False:
-- no bridge of the channel is there that would send them, and nothing was put in.
create function lucyd_send_out(p_conversation text, p_channel text, p_ids uuid[], p_texts text[]) returns boolean
language plpgsql as $$
begin
  if exists (select 1 from deliveries where id = any (p_ids)) then
    return true;
  end if;
  if not exists (select 1 from channel_leaders l join workers w on w.id = l.bridge
                 where l.channel = p_channel and w.state in ('alive', 'draining')) then
    return false;
  end if;
  -- Beside the parts of runs they have no number of their own; among each other the time tells their order.
  insert into deliveries (id, conversation, channel, ordinal, part, beside, kind, body, created_at)
    select p.id, p_conversation, p_channel, c.last_ordinal, 32767, true, 'reply', jsonb_build_object('text', p.text),
           now() + p.position * interval '1 microsecond'
    from conversations c, unnest(p_ids, p_texts) with ordinality as p (id, text, position)
    where c.key = p_conversation
    on conflict (id) do nothing;
  if found then  -- else somebody has put in the same at this moment, or there is no such conversation
    insert into events (conversation, type, payload)
      values (p_conversation, 'sent_out', json_build_object('deliveries', p_ids));
  end if;
  return exists (select 1 from deliveries where id = any (p_ids));
end $$;
