-- Sub-agents: runs of their own, in conversations of their own, that somebody else's run waits for.
--
-- A call of class `local` may be answered later: `lucyd_act_spawn` makes the child and leaves the call open. When all else of
-- its round is done, the parent waits (reason `child`) without owner or slot. What became of its children is written into its
-- calls by `lucyd_collect_children`, under the parent's lock and no other: an end takes the lock of its own conversation alone,
-- so no two ends, cancels or claims can wait for each other in a circle, however deep children are nested.

create table children (              -- written by lucyd_act_spawn (made) and lucyd_collect_children (collected)
  run             uuid primary key references runs (id) on delete cascade,
  parent          uuid not null,
  root            uuid not null,     -- the run of a person or a machine that all of these work for: its money is theirs
  step            integer not null,  -- with call_index: the parent's call that it answers
  call_index      integer not null,
  most_characters integer not null,  -- of its text in the parent's context
  made_at         timestamptz not null default now(),
  collected_at    timestamptz,       -- its end stands in the parent's call, or the parent has ended before
  unique (parent, step, call_index)
);
comment on table children is 'Runs that other runs have asked for, and wait for. What they may do stands in their message, as `child`.';
create index children_open on children (parent) where collected_at is null;
create index children_root on children (root);

-- As in 0013; an act may leave its call open (`{"open": true}`): it has been carried out, asked again it is not done again, and
-- whoever has the result writes it.
create or replace function lucyd_act(
  p_worker uuid, p_conversation text, p_epoch bigint, p_run uuid, p_step integer, p_call_index integer, p_name text,
  p_arguments jsonb
) returns json language plpgsql as $$
declare
  v_conversation conversations;
  v_run runs;
  v_effect effects;
  v_said jsonb;
begin
  select * into v_conversation from conversations where key = p_conversation for no key update;
  select * into v_run from runs where id = p_run;
  if v_conversation.epoch is distinct from p_epoch or v_conversation.owner is distinct from p_worker
     or v_run.state is distinct from 'running' then
    return json_build_object('status', 'lost');
  end if;
  select * into v_effect from effects where run = p_run and step = p_step and call_index = p_call_index;
  if not found then
    raise exception 'nothing was intended for call % of step %', p_call_index, p_step using errcode = 'check_violation';
  end if;
  if v_effect.state <> 'intended' or v_effect.result -> 'said' ? 'open' then
    return json_build_object('status', 'done', 'said', v_effect.result -> 'said');
  end if;
  execute format('select %I($1, $2)', 'lucyd_act_' || p_name) into v_said using
    jsonb_build_object(
      'key', p_run || ':' || p_step || ':' || p_call_index, 'run', p_run, 'conversation', p_conversation,
      'session', v_run.session, 'ordinal', v_run.ordinal, 'principal', v_run.principal, 'sender', v_run.sender,
      'source', v_run.source, 'tier', v_run.tier, 'channel', v_conversation.channel, 'contact', v_conversation.contact,
      'step', p_step, 'call_index', p_call_index),
    p_arguments;
  if v_said ? 'open' then
    update effects set epoch = p_epoch, result = jsonb_build_object('said', v_said)
      where run = p_run and step = p_step and call_index = p_call_index;
    return json_build_object('status', 'done', 'said', v_said);
  end if;
  update effects set state = 'done', ended_at = now(), epoch = p_epoch, result = jsonb_strip_nulls(jsonb_build_object(
      'tool_use_id', call_id, 'content', coalesce('Error: ' || (v_said ->> 'error'), v_said ->> 'text', ''),
      'is_error', case when v_said ? 'error' then true end, 'said', v_said))
    where run = p_run and step = p_step and call_index = p_call_index;
  return json_build_object('status', 'done', 'said', v_said);
end $$;

-- The act behind `sessions_spawn`: a run of its own for `prompt`, which is done by whoever has a slot. It may take `seconds`,
-- and never longer than what is left of its parent's time. Refused: deeper than `deepest`, more than `most_a_round` in one
-- round, more than `most_open` that one principal has open.
create function lucyd_act_spawn(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
declare
  v_parent runs;
  v_child uuid := (p_arguments ->> 'id')::uuid;
  v_depth integer;
  v_root uuid;
  v_step integer := (p_context ->> 'step')::integer;
  v_index integer := (p_context ->> 'call_index')::integer;
  v_conversation text;
  v_open integer;
begin
  select * into v_parent from runs where id = (p_context ->> 'run')::uuid;
  v_depth := coalesce((v_parent.message -> 'child' ->> 'depth')::integer, 0) + 1;
  v_root := coalesce((v_parent.message -> 'child' ->> 'root')::uuid, v_parent.id);
  if v_depth > (p_arguments ->> 'deepest')::integer then
    return jsonb_build_object('error', format('sub-agents are nested %s deep here, which is the limit', v_depth - 1));
  end if;
  select count(*) into v_open from children where parent = v_parent.id and step = v_step;
  if v_open >= (p_arguments ->> 'most_a_round')::integer then
    return jsonb_build_object('error', format('no more than %s sub-agents can be started at once', v_open));
  end if;
  -- Runs of one principal may spawn at the same moment; nobody who holds this asks for a conversation after it.
  perform pg_advisory_xact_lock(hashtextextended('children of ' || v_parent.principal, 0));
  select count(*) into v_open from children c join runs r on r.id = c.run
    where c.collected_at is null and r.finished_at is null and r.principal = v_parent.principal;
  if v_open >= (p_arguments ->> 'most_open')::integer then
    return jsonb_build_object('error', format('%s sub-agents are at work for this person already; try again when some have ended', v_open));
  end if;
  v_conversation := format('system:sub:%s:%s:%s', v_parent.id, v_step, v_index);
  insert into conversations (key, channel, principal, contact, last_ordinal)
    values (v_conversation, 'system', v_parent.principal, 'sub-agent', 1);
  insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message, when_busy, needs,
                    traceparent, deadline_at)
    values (v_child, v_conversation, 1, 'message', 'accepted', 'system', 'minimal', v_parent.principal, v_parent.sender,
            jsonb_build_object('text', p_arguments -> 'prompt', 'child', jsonb_build_object(
              'parent', v_parent.id, 'root', v_root, 'depth', v_depth, 'model', p_arguments -> 'model',
              'tools', p_arguments -> 'tools', 'max_turns', p_arguments -> 'max_turns')),
            'queue', 4, v_parent.traceparent,
            least(v_parent.deadline_at, now() + make_interval(secs => (p_arguments ->> 'seconds')::double precision)));
  insert into children (run, parent, root, step, call_index, most_characters)
    values (v_child, v_parent.id, v_root, v_step, v_index, (p_arguments ->> 'most_characters')::integer);
  update runs set needs = greatest(needs, 4) where id = v_parent.id;  -- who goes on with it must know what it waits for
  insert into events (conversation, session, run, type, payload)
    values (v_parent.conversation, v_parent.session, v_parent.id, 'child_spawned', json_build_object(
            'child', v_child, 'step', v_step, 'call_index', v_index, 'depth', v_depth));
  return jsonb_build_object('open', true, 'run', v_child, 'wake', jsonb_build_array(v_conversation));
end $$;

-- What an ended child has to say to the model that asked for it, as the result of that call. `p_call_id` is the model's name
-- for it. What stayed in doubt is told to the parent's person, too.
create function lucyd_child_result(p_child runs, p_call_id text, p_most integer) returns jsonb language plpgsql as $$
declare
  v_failed boolean := p_child.state <> 'done';
  v_text text;
  v_notices jsonb;
begin
  v_text := case when v_failed then
      format('the sub-agent %s: %s', case p_child.state when 'cancelled' then 'was cancelled' when 'dead' then 'was given up'
                                                        else 'failed' end, coalesce(p_child.outcome ->> 'error', 'nobody knows why'))
    else coalesce(nullif(btrim(p_child.outcome ->> 'reply', e' \n\r\t'), ''), '(no output)') end;
  if length(v_text) > p_most then
    v_text := left(v_text, p_most) || format(e'\n[cut after %s characters]', p_most);
  end if;
  select coalesce(jsonb_agg(n.notice), '[]') into v_notices
    from jsonb_array_elements_text(coalesce(nullif(p_child.outcome -> 'notices', 'null'), '[]')) as n (notice)
    where position(n.notice in v_text) = 0;
  select v_text || coalesce(string_agg(format(e'\n[system: %s]', n.notice), '' order by n.position), '') into v_text
    from jsonb_array_elements_text(v_notices) with ordinality as n (notice, position);
  select coalesce(jsonb_agg(n.notice), '[]') into v_notices
    from jsonb_array_elements_text(v_notices) as n (notice) where n.notice like 'I was interrupted while using %';
  return jsonb_strip_nulls(jsonb_build_object(
    'tool_use_id', p_call_id, 'content', case when v_failed then 'Error: ' else '' end || v_text,
    'is_error', case when v_failed then true end,
    'said', jsonb_build_object(
      case when v_failed then 'error' else 'text' end, v_text, 'run', p_child.id, 'notices', v_notices,
      'ms', greatest(0, round(extract(epoch from p_child.finished_at - p_child.accepted_at) * 1000)))));
end $$;

-- Writes the ends of a run's children into the calls that asked for them; a run that waits for none any more goes on. Returns
-- its conversation when somebody is to look there. Asked again, it finds nothing to do.
create function lucyd_collect_children(p_parent uuid) returns text language plpgsql as $$
declare
  v_parent runs;
  v_child runs;
  v_place record;
begin
  perform 1 from conversations where key = (select conversation from runs where id = p_parent) for no key update;
  select * into v_parent from runs where id = p_parent;
  for v_place in
    select c.* from children c join runs r on r.id = c.run
      where c.parent = p_parent and c.collected_at is null and r.finished_at is not null order by c.step, c.call_index
  loop
    select * into v_child from runs where id = v_place.run;
    update effects set state = 'done', ended_at = now(),
                       result = lucyd_child_result(v_child, call_id, v_place.most_characters)
      where run = p_parent and step = v_place.step and call_index = v_place.call_index and state = 'intended';
    update children set collected_at = now() where run = v_place.run;
    update sessions set closed_at = now() where conversation = v_child.conversation and closed_at is null;
  end loop;
  if v_parent.state = 'waiting' and v_parent.wait_reason = 'child' and not exists (
    select 1 from children where parent = p_parent and collected_at is null
  ) then
    update runs set wake_at = '-infinity' where id = p_parent;
    return v_parent.conversation;
  end if;
  return null;
end $$;

-- Finds what nobody else would: ends of children that their parents don't know of, parents that wait for none any more, and
-- children whose parent has ended, which end as if they were cancelled. Whatever somebody has locked is met again a second
-- later. Returns the conversations that have work now.
create function lucyd_mind_children(p_limit integer, p_reason text) returns json language plpgsql as $$
declare
  v_due record;
  v_conversation text;
  v_wake jsonb := '[]';
  v_ended jsonb := '[]';
begin
  for v_due in
    select c.run, r.conversation from children c join runs p on p.id = c.parent join runs r on r.id = c.run
      where c.collected_at is null and p.finished_at is not null and r.finished_at is null and r.cancel_asked_at is null
      order by r.conversation limit p_limit
  loop
    perform 1 from conversations where key = v_due.conversation for no key update skip locked;
    if found then
      perform lucyd_cancel(v_due.run, p_reason, false);
      v_ended := v_ended || to_jsonb(v_due.run);
    end if;
  end loop;
  for v_due in
    select due.parent, p.conversation from (
      select c.parent from children c join runs r on r.id = c.run where c.collected_at is null and r.finished_at is not null
      union
      select w.id from runs w where w.state = 'waiting' and w.wait_reason = 'child' and w.wake_at is null
        and not exists (select 1 from children c where c.parent = w.id and c.collected_at is null)
    ) due join runs p on p.id = due.parent order by p.conversation limit p_limit
  loop
    perform 1 from conversations where key = v_due.conversation for no key update skip locked;
    if found then
      v_conversation := lucyd_collect_children(v_due.parent);
      if v_conversation is not null then
        v_wake := v_wake || to_jsonb(v_conversation);
      end if;
    end if;
  end loop;
  return json_build_object('wake', v_wake, 'ended', v_ended);
end $$;

-- lucyd_claim_2, and a child is given to the model it was asked for: `p_routes` has one for each as `model:<role>`.
create function lucyd_claim_3(
  p_worker uuid, p_conversation text, p_call uuid, p_new_session uuid, p_understands integer, p_routes jsonb,
  p_cached_session uuid, p_cached_ordinal integer, p_cached_from integer, p_suspect boolean, p_alone boolean,
  p_debounce interval
) returns json language plpgsql as $$
declare
  v_route jsonb;
begin
  if starts_with(p_conversation, 'system:sub:') then
    select p_routes -> ('model:' || (message -> 'child' ->> 'model')) into v_route
      from runs where conversation = p_conversation and message ? 'child' order by ordinal limit 1;
    if v_route is not null then  -- else this worker has no such model: the route of its source is the next best
      p_routes := p_routes || jsonb_build_object('system', v_route);
    end if;
  end if;
  return lucyd_claim_2(p_worker, p_conversation, p_call, p_new_session, p_understands, p_routes, p_cached_session,
                       p_cached_ordinal, p_cached_from, p_suspect, p_alone, p_debounce);
end $$;
