-- What an agent tells people while it works: words for the one it answers, at once, and words for others, in their line.

-- What the act of `message` keeps of a run: whoever would write to people without an end is stopped.
create table told_people (           -- written by lucyd_act_message
  run      uuid not null references runs (id) on delete cascade,
  position integer not null,         -- from 1
  place    text not null,            -- the conversation that the words went to
  outbound uuid,                     -- the run that carries them there; null: they went into the run's own chat
  primary key (run, position)
);
comment on table told_people is 'Messages that an agent has sent to people while it answered somebody. They go with the run.';

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
    return jsonb_build_object('error', format('%s messages were sent by this run already, and no more may be', v_count));
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
