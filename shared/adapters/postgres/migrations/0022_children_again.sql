-- Sub-agents once more: the money of a family is let out one call after the other, what they remember is their root's, and
-- nothing of them is kept for longer than their root. And what is scheduled goes by person, as memory does.

-- Those who are at work hold one of these and ask for another: all at once, or none and again.
do $$
begin
  for v_try in 1 .. 1000 loop
    begin
      perform set_config('lock_timeout', case when v_try <= 20 then '200ms' else '5s' end, true);
      lock table conversations, runs, reservations, schedules in access exclusive mode;
      exit;
    exception when lock_not_available or deadlock_detected then
      perform pg_sleep(0.1);
    end;
  end loop;
  perform set_config('lock_timeout', '0', true);
end $$;
lock table conversations, runs, reservations, schedules in access exclusive mode;

-- Which of the open calls may go out by now. Only those of families are asked after; all others leave it empty.
alter table reservations add column let_through_at timestamptz;
create index reservations_let_through on reservations (run) where let_through_at is not null and settled_at is null;

-- May this call of a family go out? What its members have paid and the most that those of their calls may cost that are out
-- must be below the limit; so all of them together pass it by one call at most. `given` (asked again: still), `wait`: it depends
-- on what calls will have cost that are out, `none`: the money is spent, `lost`: somebody else has closed the reservation. One
-- family's calls take turns here. `beside` is what the others have paid, not what they may have paid.
create function lucyd_let_through(p_call uuid, p_run uuid, p_root uuid, p_limit numeric) returns json language plpgsql as $$
declare
  v_reservation reservations;
  v_family uuid[];
  v_own numeric;
  v_beside numeric;
  v_out numeric;
  v_leave text;
begin
  perform pg_advisory_xact_lock(hashtextextended('money of ' || p_root, 0));
  select * into v_reservation from reservations where call_id = p_call;
  v_family := array(select run from children where root = p_root union select p_root union select p_run);
  -- One statement, so that a call that is settled meanwhile counts once: as it was, or as it was paid.
  select coalesce(sum(cost) filter (where run = p_run), 0), coalesce(sum(cost) filter (where run <> p_run), 0),
         coalesce((select sum(worst_case) from reservations where run = any(v_family)
                   and let_through_at is not null and settled_at is null and call_id <> p_call), 0)
    into v_own, v_beside, v_out
    from costs where run = any(v_family) and not (estimated and provider = '');
  if v_own + v_beside >= p_limit then
    v_leave := 'none';
  elsif v_reservation.let_through_at is null and v_own + v_beside + v_out >= p_limit then
    v_leave := 'wait';
  else
    update reservations set let_through_at = coalesce(let_through_at, now()) where call_id = p_call and settled_at is null;
    v_leave := case when found then 'given' else 'lost' end;
  end if;
  return json_build_object('leave', v_leave, 'beside', v_beside::text);
end $$;

-- As in 0017; the child knows in which conversation its root runs, for that says whose memory it is.
create or replace function lucyd_act_spawn(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
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
              'tools', p_arguments -> 'tools', 'max_turns', p_arguments -> 'max_turns',
              'works_in', coalesce(v_parent.message -> 'child' ->> 'works_in', v_parent.conversation))),
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

update runs r set message = jsonb_set(r.message, '{child,works_in}', to_jsonb(root.conversation))
  from children c join runs root on root.id = c.root where c.run = r.id and r.message ? 'child';

-- As in 0015; a fact that a sub-agent has found comes from the session that it works for.
create or replace function lucyd_act_memory_write(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
declare
  c_most constant integer := 10000;
  v_person text := lucyd_remembered(p_arguments ->> 'identity', p_arguments ->> 'person');
  v_entity text := lucyd_entity(v_person, p_arguments ->> 'entity');
  v_attribute text := p_arguments ->> 'attribute';
  v_value text := p_arguments ->> 'value';
  v_said text := format('%s.%s = %s', v_entity, v_attribute, v_value);
  v_fact facts;
begin
  select * into v_fact from facts
    where person = v_person and entity = v_entity and attribute = v_attribute and invalidated_at is null;
  if v_fact.value = v_value then
    update facts set accessed_at = now() where id = v_fact.id;
    return jsonb_build_object('text', 'Already known: ' || v_said);
  end if;
  if v_fact.id is null then
    if (select count(*) from facts where person = v_person and invalidated_at is null) >= c_most then
      return jsonb_build_object('error', format('there are %s facts already, which is the limit; forget some first', c_most));
    end if;
  else
    update facts set invalidated_at = now(), updated_at = now() where id = v_fact.id;
    delete from facts where id in (
      select id from facts
      where person = v_person and entity = v_entity and attribute = v_attribute and invalidated_at is not null
      order by id desc offset 20);
  end if;
  insert into facts (person, entity, attribute, value, source_session)
    values (v_person, v_entity, v_attribute, v_value,
            coalesce((lucyd_root_of((p_context ->> 'run')::uuid)).session, (p_context ->> 'session')::uuid));
  return jsonb_build_object('text', case when v_fact.id is null then 'Stored: ' || v_said
                                         else format('Updated: %s (was: %s)', v_said, v_fact.value) end);
end $$;

-- As in 0015; what a sub-agent records was said where it works for, and by whom is there.
create or replace function lucyd_act_record_episode(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
declare
  c_most constant integer := 10000;
  v_person text := lucyd_remembered(p_arguments ->> 'identity', p_arguments ->> 'person');
  v_root runs := lucyd_root_of((p_context ->> 'run')::uuid);
  v_id bigint;
begin
  select id into v_id from episodes where person = v_person and summary = p_arguments ->> 'summary' limit 1;
  if found then
    return jsonb_build_object('text', format('Already recorded: episode #%s', v_id));
  end if;
  if (select count(*) from episodes where person = v_person) >= c_most then
    return jsonb_build_object('error', format('there are %s episodes already, which is the limit', c_most));
  end if;
  insert into episodes (person, session, participants, topics, decisions, summary, emotional_tone)
    values (v_person, coalesce(v_root.session, (p_context ->> 'session')::uuid),
            jsonb_build_array(coalesce((select contact from conversations where key = v_root.conversation),
                                       p_context ->> 'contact')),
            p_arguments -> 'topics', p_arguments -> 'decisions', p_arguments ->> 'summary',
            p_arguments ->> 'emotional_tone')
    returning id into v_id;
  return jsonb_build_object('text', format('Recorded: episode #%s', v_id));
end $$;

-- As whom somebody came, by the rule of the worker (shared.domain.person); for rows of code that did not say.
create function lucyd_identity(p_principal text, p_sender text, p_conversation text) returns text language sql immutable as $$
  select case
    when starts_with(p_principal, 'person:telegram:') then substr(p_principal, 8)
    when p_principal = 'key:default' or not starts_with(p_principal, 'key:') then p_principal
    when starts_with(p_conversation, 'http:' || substr(p_principal, 5) || ':') then p_conversation
    else 'http:' || substr(p_principal, 5) || ':' || p_sender
  end
$$;

-- Whose a schedule is: one principal may be many people. Those of before are their identities' own.
alter table schedules add column identity text, add column person text;
update schedules set identity = lucyd_identity(principal, sender, conversation),
                     person = case principal when 'key:default' then 'owner' else lucyd_identity(principal, sender, conversation) end;
create index schedules_of_identity on schedules (identity);
create index schedules_of_person on schedules (person);

-- What a person has scheduled, as whoever they came: what they made as this one, as one that was linked with them, and as one
-- that the rule says is them. `p_person` is what the rule says of `p_identity` now.
create function lucyd_schedules_of(p_identity text, p_person text) returns setof schedules language sql stable as $$
  with me as materialized (select lucyd_person(p_identity, p_person) as person)
  select s.* from schedules s where s.id in (
    select id from schedules where identity = p_identity
    union all
    select o.id from me join identities i on i.person = me.person and i.linked join schedules o on o.identity = i.name
    union all
    select o.id from me join schedules o on o.person = me.person
      where not exists (select 1 from identities i where i.name = o.identity and i.linked))
$$;

-- As in 0016; whose it is comes along (`identity`, `person`), and what a sub-agent schedules is its root's.
create or replace function lucyd_act_schedule(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
declare
  v_principal text := p_context ->> 'principal';
  v_due timestamptz := coalesce((p_arguments ->> 'due_at')::timestamptz,
                                now() + (p_arguments ->> 'delay')::double precision * interval '1 second');
  v_root runs := lucyd_root_of((p_context ->> 'run')::uuid);
  v_conversation text := coalesce(v_root.conversation, p_context ->> 'conversation');
  v_sender text := coalesce(v_root.sender, p_context ->> 'sender');
  v_identity text := coalesce(p_arguments ->> 'identity', lucyd_identity(v_principal, v_sender, v_conversation));
  v_id bigint;
begin
  perform pg_advisory_xact_lock(hashtext('lucyd_act_schedule'), hashtext(v_principal));
  if (select count(*) from schedules where principal = v_principal and state = 'pending')
     >= (p_arguments ->> 'most')::bigint then
    return jsonb_build_object('error', format(
      case when exists (select 1 from lucyd_schedules_of(v_identity, coalesce(p_arguments ->> 'person', v_identity))
                        where state = 'pending')
           then '%s are scheduled already, and no more may be; cancel one first'
           else '%s are scheduled already by others with the same key, and no more may be' end, p_arguments ->> 'most'));
  end if;
  insert into schedules (conversation, principal, sender, contact, kind, target, place, text, due_at, look_at, made_by,
                         identity, person)
    values (v_conversation, v_principal, v_sender,
            coalesce((select contact from conversations where key = v_root.conversation), p_context ->> 'contact'),
            p_arguments ->> 'kind', p_arguments ->> 'target', p_arguments ->> 'place', p_arguments ->> 'text', v_due,
            v_due, p_context ->> 'key', v_identity, coalesce(p_arguments ->> 'person', v_identity))
    returning id into v_id;
  return jsonb_build_object('text', format('Scheduled sched-%s: %s', v_id, p_arguments ->> 'told'));
end $$;

-- As in 0016; `id`, and of the person's own only who asks.
create or replace function lucyd_act_cancel_scheduled(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
declare
  v_identity text := coalesce(p_arguments ->> 'identity', lucyd_identity(p_context ->> 'principal', p_context ->> 'sender',
                                                                         p_context ->> 'conversation'));
  v_principal text;
  v_found json;
  v_name text := 'sched-' || (p_arguments ->> 'id');
begin
  select principal into v_principal from lucyd_schedules_of(v_identity, coalesce(p_arguments ->> 'person', v_identity))
    where id = (p_arguments ->> 'id')::bigint;
  v_found := lucyd_cancel_schedule((p_arguments ->> 'id')::bigint, v_principal, false);
  return case v_found ->> 'status'
    when 'cancelled' then jsonb_build_object('text', format('Cancelled %s', v_name))
    when 'fired' then jsonb_build_object('error', format('%s has happened already', v_name))
    when 'failed' then jsonb_build_object('error', format('%s has failed: %s', v_name, v_found ->> 'reason'))
    else jsonb_build_object('error', format('nothing of yours is scheduled as %s; list_scheduled shows what is', v_name))
  end;
end $$;

create index conversations_of_children on conversations (created_at) where starts_with(key, 'system:sub:');

-- Throws away conversations of sub-agents with all that was said there, when none of their runs is left; how many.
create function lucyd_forget_children(p_older_than interval, p_limit integer) returns bigint language plpgsql as $$
declare
  v_gone text[] := array(
    select c.key from conversations c
    where starts_with(c.key, 'system:sub:') and c.created_at < now() - p_older_than
      and not exists (select 1 from runs r where r.conversation = c.key)
    order by c.created_at limit p_limit for update skip locked);
  v_sessions uuid[] := array(select id from sessions where conversation = any(v_gone));
begin
  delete from messages where session = any(v_sessions);
  delete from consolidation_state where session = any(v_sessions);
  delete from sessions where id = any(v_sessions);
  delete from conversations where key = any(v_gone);
  return cardinality(v_gone);
end $$;
