-- What is to happen at a later time: reminders, tasks of the agent's own, messages to people. A row here is the timer; no
-- process has one in its memory.

create table schedules (             -- written by the acts below; fired by services.scheduler
  id           bigint generated always as identity primary key,  -- people say it as sched-12
  conversation text not null,        -- in which it was made
  principal    text not null,        -- whose it is: nobody else sees it or cancels it
  sender       text not null,
  contact      text not null,        -- a label for people
  kind         text not null check (kind in ('message', 'reminder', 'task')),
  target       text,                 -- of a message: to whom it goes, as people call them
  place        text,                 -- and the key of that person's conversation
  text         text not null,
  due_at       timestamptz not null,
  state        text not null default 'pending' check (state in ('pending', 'fired', 'cancelled', 'failed')),
  tries        integer not null default 0,       -- how often it was due and could not be accepted
  look_at      timestamptz not null,             -- when it is fired: at first when it is due, later when it is tried again
  run          uuid,                 -- what it became; of a pending one: the run that somebody is about to make of it
  reason       text,                 -- why it failed, or was put off
  created_at   timestamptz not null default now(),
  ended_at     timestamptz,
  made_by      text not null unique  -- the call that made it: <run>:<step>:<call>
);
comment on table schedules is 'Timers of people and of the agent. Those that ended go with the audit events of their time.';
create index schedules_due on schedules (look_at) where state = 'pending';
create index schedules_of on schedules (principal, id);
create index schedules_ended on schedules (ended_at) where ended_at is not null;

-- The act of the tools that schedule: `kind`, `text`, `due_at` or `delay` (seconds from now), `most` (how many may be pending),
-- `target` and `place` of a message, and `told`, what the model reads behind the name. One principal's acts take turns here, so
-- calls that come at the same time can't pass the limit together. What a sub-agent schedules comes in the conversation of the
-- run that it works for in the end (0017): nobody listens in its own.
create function lucyd_act_schedule(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
declare
  v_principal text := p_context ->> 'principal';
  v_due timestamptz := coalesce((p_arguments ->> 'due_at')::timestamptz,
                                now() + (p_arguments ->> 'delay')::double precision * interval '1 second');
  v_conversation text := p_context ->> 'conversation';
  v_sender text := p_context ->> 'sender';
  v_contact text := p_context ->> 'contact';
  v_root record;
  v_id bigint;
begin
  if starts_with(v_conversation, 'system:sub:') then
    select r.conversation, r.sender, c.contact into v_root
      from children k join runs r on r.id = k.root join conversations c on c.key = r.conversation
      where k.run = (p_context ->> 'run')::uuid;
    if found then
      v_conversation := v_root.conversation;
      v_sender := v_root.sender;
      v_contact := v_root.contact;
    end if;
  end if;
  perform pg_advisory_xact_lock(hashtext('lucyd_act_schedule'), hashtext(v_principal));
  if (select count(*) from schedules where principal = v_principal and state = 'pending')
     >= (p_arguments ->> 'most')::bigint then
    return jsonb_build_object('error', format('%s are scheduled already, and no more may be; cancel one first',
                                              p_arguments ->> 'most'));
  end if;
  insert into schedules (conversation, principal, sender, contact, kind, target, place, text, due_at, look_at, made_by)
    values (v_conversation, v_principal, v_sender, v_contact, p_arguments ->> 'kind', p_arguments ->> 'target',
            p_arguments ->> 'place', p_arguments ->> 'text', v_due, v_due, p_context ->> 'key')
    returning id into v_id;
  return jsonb_build_object('text', format('Scheduled sched-%s: %s', v_id, p_arguments ->> 'told'));
end $$;

-- Takes a pending one back, if it is this principal's (or belongs to no API key, for who may see those): what became of it, or
-- `unknown`. What somebody is about to fire can't be taken back any more; asked again, it was cancelled all the same.
create function lucyd_cancel_schedule(p_id bigint, p_principal text, p_keyless boolean) returns json language plpgsql as $$
declare
  v_schedule schedules;
begin
  select * into v_schedule from schedules
    where id = p_id and (principal = p_principal or (p_keyless and not starts_with(principal, 'key:'))) for update;
  if not found then
    return json_build_object('status', 'unknown');
  elsif v_schedule.state = 'pending' and v_schedule.run is null then
    update schedules set state = 'cancelled', ended_at = now() where id = p_id;
    insert into events (conversation, type, payload)
      values (v_schedule.conversation, 'schedule_cancelled', json_build_object('schedule', p_id));
    return json_build_object('status', 'cancelled');
  end if;
  return json_build_object('status', case v_schedule.state when 'pending' then 'fired' else v_schedule.state end,
                           'reason', v_schedule.reason);
end $$;

-- The act of the tool that cancels: `id`, and of its own principal only.
create function lucyd_act_cancel_scheduled(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
declare
  v_found json := lucyd_cancel_schedule((p_arguments ->> 'id')::bigint, p_context ->> 'principal', false);
  v_name text := 'sched-' || (p_arguments ->> 'id');
begin
  return case v_found ->> 'status'
    when 'cancelled' then jsonb_build_object('text', format('Cancelled %s', v_name))
    when 'fired' then jsonb_build_object('error', format('%s has happened already', v_name))
    when 'failed' then jsonb_build_object('error', format('%s has failed: %s', v_name, v_found ->> 'reason'))
    else jsonb_build_object('error', format('nothing of yours is scheduled as %s; list_scheduled shows what is', v_name))
  end;
end $$;

-- Notes that one can't be fired, for good.
create function lucyd_schedule_failed(p_id bigint, p_reason text) returns boolean language plpgsql as $$
declare
  v_conversation text;
begin
  update schedules set state = 'failed', reason = p_reason, ended_at = now() where id = p_id and state = 'pending'
    returning conversation into v_conversation;
  if found then
    insert into events (conversation, type, payload)
      values (v_conversation, 'schedule_failed', json_build_object('schedule', p_id, 'reason', p_reason));
  end if;
  return v_conversation is not null;
end $$;
