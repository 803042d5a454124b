-- The four transactions: accept, claim, store (a step or the end), and what surrounds them.
--
-- Each is one function, so that it is one round trip and one commit, and so that what is read after the conversation's
-- row lock is read with a snapshot taken after it: a single statement would have looked at the world before it waited.
-- A function that changes in a way old code can't bear gets a new name (suffix _2); the old one goes a release later.

-- Errors that the caller must understand: LU001 queue full, LU002 same key with another body.

create function lucyd_accept(
  p_run uuid, p_conversation text, p_channel text, p_principal text, p_contact text, p_kind text, p_source text,
  p_tier text, p_sender text, p_message jsonb, p_when_busy text, p_needs integer, p_deadline interval,
  p_scope text, p_key text, p_body_hash bytea, p_key_ttl interval, p_capacity integer, p_traceparent text
) returns json language plpgsql as $$
declare
  v_ordinal bigint;
  v_run runs;
  v_key idempotency;
begin
  select * into v_run from runs where id = p_run;
  if found then  -- the first try was committed, but its answer got lost
    return json_build_object('run', v_run.id, 'ordinal', v_run.ordinal, 'state', v_run.state, 'created', true);
  end if;
  if p_key is not null then
    insert into idempotency as i (scope, key, body_hash, run, expires_at)
      values (p_scope, p_key, p_body_hash, p_run, now() + p_key_ttl)
      on conflict (scope, key) do update
        set body_hash = excluded.body_hash, run = excluded.run, expires_at = excluded.expires_at
        where i.expires_at < now();
    if not found then
      select * into v_key from idempotency where scope = p_scope and key = p_key;
      if v_key.body_hash <> p_body_hash then
        raise exception 'the idempotency key was used with another body' using errcode = 'LU002';
      end if;
      select * into v_run from runs where id = v_key.run;
      return json_build_object('run', v_run.id, 'ordinal', v_run.ordinal, 'state', v_run.state,
                               'created', v_run.id = p_run);
    end if;
  end if;
  insert into conversations as c (key, channel, principal, contact, last_ordinal)
    values (p_conversation, p_channel, p_principal, p_contact, 1)
    on conflict (key) do update set last_ordinal = c.last_ordinal + 1, contact = excluded.contact
    returning last_ordinal into v_ordinal;
  if v_ordinal > 1 then  -- the first try may have been under way when the second one looked; now it is done
    select * into v_run from runs where id = p_run;
    if found then
      update conversations set last_ordinal = last_ordinal - 1 where key = p_conversation;
      return json_build_object('run', v_run.id, 'ordinal', v_run.ordinal, 'state', v_run.state, 'created', true);
    end if;
  end if;
  if v_ordinal > p_capacity and (
    select count(*) from runs where conversation = p_conversation and state in ('accepted', 'running', 'waiting')
  ) >= p_capacity then
    raise exception 'too many messages wait in this conversation' using errcode = 'LU001';
  end if;
  insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message, when_busy, needs,
                    traceparent, deadline_at)
    values (p_run, p_conversation, v_ordinal, p_kind, 'accepted', p_source, p_tier, p_principal, p_sender, p_message,
            p_when_busy, p_needs, p_traceparent, now() + p_deadline);
  return json_build_object('run', p_run, 'ordinal', v_ordinal, 'state', 'accepted', 'created', true);
end $$;

create function lucyd_claim(
  p_worker uuid, p_conversation text, p_call uuid, p_new_session uuid, p_understands integer, p_routes jsonb,
  p_cached_session uuid, p_cached_ordinal integer, p_cached_from integer
) returns json language plpgsql as $$
declare
  v_conversation conversations;
  v_run runs;
  v_session sessions;
  v_route jsonb;
  v_from integer;
  v_asked_again boolean;
  v_begun boolean;
begin
  -- A fence asks for this row FOR UPDATE, so no claim can slip in behind the back of one. The worker is locked before
  -- the conversation, here as there: the other way round, a claim and a fence could wait for each other.
  perform 1 from workers where id = p_worker and state = 'alive' for key share;
  if not found then
    return json_build_object('status', 'fenced');
  end if;
  select * into v_conversation from conversations where key = p_conversation for no key update;
  if not found then
    return json_build_object('status', 'nothing');
  end if;
  if v_conversation.owner is not null and v_conversation.owner <> p_worker and exists (
    select 1 from workers where id = v_conversation.owner and state in ('alive', 'draining')
  ) then
    return json_build_object('status', 'owned');
  end if;
  select * into v_run from runs where conversation = p_conversation and state in ('accepted', 'running', 'waiting')
    order by ordinal limit 1;
  if not found or (v_run.state = 'waiting' and (v_run.wake_at is null or v_run.wake_at > now()))
     or v_run.needs > p_understands then
    if v_conversation.owner is not null then
      update conversations set owner = null where key = p_conversation;
    end if;
    return json_build_object('status', 'nothing');
  end if;

  select * into v_session from sessions where conversation = p_conversation and closed_at is null;
  if not found then
    insert into sessions (id, conversation, contact) values (p_new_session, p_conversation, v_conversation.contact)
      returning * into v_session;
    insert into events (conversation, session, run, type) values (p_conversation, v_session.id, v_run.id, 'session_opened');
  end if;
  -- A run that is already in this worker's hand: the answer to its claim got lost, or Postgres was away for long.
  v_asked_again := v_conversation.owner = p_worker and v_run.state = 'running' and v_run.epoch = v_conversation.epoch;
  v_begun := v_run.stage <> 'new';
  update conversations set owner = p_worker, epoch = epoch + 1, owned_at = now()
    where key = p_conversation returning * into v_conversation;

  if v_run.kind = 'message' and v_run.stage = 'new' then
    insert into messages (session, ordinal, run, role, body)
      values (v_session.id, v_session.last_ordinal + 1, v_run.id, 'user',
              jsonb_build_object('role', 'user', 'content', v_run.message -> 'text', 'received_at', v_run.accepted_at)
                || case when v_session.pending_warning is null then '{}'
                        else jsonb_build_object('warning', v_session.pending_warning) end);
    update sessions set last_ordinal = last_ordinal + 1, pending_warning = null, updated_at = now()
      where id = v_session.id returning * into v_session;
  end if;
  if v_asked_again then
    -- The reservations of that earlier claim: nobody knows their call ids any more, so nobody else will settle them. Most
    -- were never used, for the worker never heard of the claim. But one that gave up on a step, because Postgres stayed
    -- away, asks again just so, and its call went out. The rows of both look alike, so the guess is on the dear side.
    perform lucyd_settle_unknown(array(
      select call_id from reservations
      where worker = p_worker and run = v_run.id and call_id <> p_call and settled_at is null order by call_id));
  end if;
  v_route := coalesce(p_routes -> v_run.kind, p_routes -> v_run.source, p_routes -> '*');
  if v_run.stage <> 'tools' then
    insert into reservations (call_id, worker, run, epoch, conversation, session, principal, model, worst_case, currency)
      values (p_call, p_worker, v_run.id, v_conversation.epoch, p_conversation, v_session.id, v_run.principal,
              v_route ->> 'model', (v_route ->> 'worst_case')::numeric, v_route ->> 'currency')
      on conflict (call_id) do update set epoch = excluded.epoch;
  end if;
  update runs set state = 'running', epoch = v_conversation.epoch, session = v_session.id,
                  attempts = attempts + case when v_asked_again then 0 else 1 end,
                  stage = case when stage = 'new' then 'model' else stage end,
                  claimed_at = coalesce(claimed_at, now()), wait_reason = null, wake_at = null
    where id = v_run.id returning * into v_run;

  v_from := v_session.live_from;
  if p_cached_session = v_session.id and p_cached_from = v_session.live_from then
    v_from := p_cached_ordinal + 1;
  end if;
  return json_build_object(
    'status', 'claimed',
    'epoch', v_conversation.epoch,
    'contact', v_conversation.contact,
    'channel', v_conversation.channel,
    'run', json_build_object(
      'id', v_run.id, 'ordinal', v_run.ordinal, 'kind', v_run.kind, 'source', v_run.source, 'tier', v_run.tier,
      'principal', v_run.principal, 'sender', v_run.sender, 'message', v_run.message, 'attempts', v_run.attempts,
      'stage', v_run.stage, 'step', v_run.step, 'keep', v_run.keep, 'accepted_at', v_run.accepted_at,
      'time_left', extract(epoch from v_run.deadline_at - now()), 'cancel_asked', v_run.cancel_asked_at is not null,
      'traceparent', v_run.traceparent),
    'route', v_route,
    'session', json_build_object(
      'id', v_session.id, 'created_at', v_session.created_at, 'last_ordinal', v_session.last_ordinal,
      'live_from', v_session.live_from, 'summary', v_session.summary, 'compaction_count', v_session.compaction_count,
      'context_tokens', v_session.context_tokens, 'warned', v_session.warned,
      'compact_above', v_session.compact_above),
    'from', v_from,
    'messages', (select coalesce(json_agg(json_build_array(ordinal, run, body) order by ordinal), '[]') from messages
                 where session = v_session.id and ordinal >= v_from and not dropped),
    'effects', case when v_run.stage = 'tools' then
                 (select coalesce(json_agg(json_build_object('call_index', call_index, 'call_id', call_id, 'tool', tool,
                    'class', class, 'proof', proof, 'state', state, 'result', result) order by call_index), '[]')
                  from effects where run = v_run.id and step = v_run.step) end,
    'spent', case when v_begun then
               (select json_build_object('cost', coalesce(sum(cost), 0)::text, 'calls', count(*),
                  'input', coalesce(sum(input_tokens), 0), 'output', coalesce(sum(output_tokens), 0),
                  'cache_read', coalesce(sum(cache_read_tokens), 0), 'cache_write', coalesce(sum(cache_write_tokens), 0))
                from costs where run = v_run.id) end
  );
end $$;

create function lucyd_settle(p_settle jsonb) returns void language sql as $$
  insert into costs (call_id, run, conversation, session, principal, call_type, provider, model, input_tokens,
                     output_tokens, cache_read_tokens, cache_write_tokens, rate_input, rate_output, rate_cache_read,
                     rate_cache_write, cost, currency, estimated, latency_ms)
    select call_id, run, conversation, session, principal, call_type, provider, model, input_tokens,
           output_tokens, cache_read_tokens, cache_write_tokens, rate_input, rate_output, rate_cache_read,
           rate_cache_write, cost, currency, coalesce(estimated, false), latency_ms
    from jsonb_populate_record(null::costs, p_settle)
    on conflict (call_id) do nothing;
  update reservations set settled_at = now() where call_id = (p_settle ->> 'call_id')::uuid and settled_at is null;
$$;

-- Closes calls of which nobody can say any more what they cost: they may have been billed, so the worst case is booked and
-- said to be a guess.
create function lucyd_settle_unknown(p_calls uuid[]) returns void language sql as $$
  with cut as (
    update reservations set settled_at = now() where call_id = any(p_calls) and settled_at is null returning *
  )
  insert into costs (call_id, run, conversation, session, principal, call_type, provider, model, input_tokens,
                     output_tokens, cache_read_tokens, cache_write_tokens, rate_input, rate_output, rate_cache_read,
                     rate_cache_write, cost, currency, estimated)
    select call_id, run, conversation, session, principal, 'agentic', '', model, 0, 0, 0, 0, 0, 0, 0, 0, worst_case,
           currency, true from cut
    on conflict (call_id) do nothing;
$$;

-- Writes one step, or the end, of an attempt. Everything is optional but 'id' and 'run':
--   settle {costs row}, messages [body], intents [effect], results [{call_index, state, result}], reserve {reservation},
--   step, stage, keep, finish {state, outcome, terminal, drop, session {..}, compact uuid, compaction {..}, event {..}}
create function lucyd_store(p_worker uuid, p_conversation text, p_epoch bigint, p_write jsonb)
returns json language plpgsql as $$
declare
  v_conversation conversations;
  v_run runs;
  v_finish jsonb := p_write -> 'finish';
  v_count integer;
  v_ordinal integer;
  v_more boolean;
begin
  -- Whoever needs both locks the conversation first and a reservation second, here and everywhere.
  select * into v_conversation from conversations where key = p_conversation for no key update;
  if p_write ? 'settle' then  -- before any check: what was bought is owed, by whoever bought it
    perform lucyd_settle(p_write -> 'settle');
  end if;
  select * into v_run from runs where id = (p_write ->> 'run')::uuid;
  if v_run.last_write = (p_write ->> 'id')::uuid then  -- stored before; only its answer got lost
    return json_build_object('status', 'stored', 'more', v_conversation.owner = p_worker);
  end if;
  if v_conversation.epoch <> p_epoch or v_conversation.owner is distinct from p_worker or v_run.state <> 'running' then
    return json_build_object('status', 'lost');
  end if;

  v_count := coalesce(jsonb_array_length(p_write -> 'messages'), 0);
  if v_count > 0 then
    update sessions set last_ordinal = last_ordinal + v_count, updated_at = now()
      where id = v_run.session returning last_ordinal into v_ordinal;
    insert into messages (session, ordinal, run, role, body)
      select v_run.session, v_ordinal - v_count + m.position, v_run.id, m.body ->> 'role', m.body
      from jsonb_array_elements(p_write -> 'messages') with ordinality as m (body, position);
  end if;
  if p_write ? 'intents' then
    insert into effects (run, step, call_index, call_id, tool, class, args_hash, proof, state, epoch)
      select v_run.id, (p_write ->> 'step')::integer, e.call_index, e.call_id, e.tool, e.class, decode(e.args_hash, 'hex'),
             e.proof, 'intended', p_epoch
      from jsonb_to_recordset(p_write -> 'intents')
        as e (call_index integer, call_id text, tool text, class text, args_hash text, proof jsonb);
  end if;
  if p_write ? 'results' then
    update effects as f set state = e.state, result = e.result, epoch = p_epoch, ended_at = now()
      from jsonb_to_recordset(p_write -> 'results') as e (call_index integer, state text, result jsonb)
      where f.run = v_run.id and f.step = v_run.step and f.call_index = e.call_index and f.state = 'intended';
  end if;
  if p_write ? 'reserve' then
    insert into reservations (call_id, worker, run, epoch, conversation, session, principal, model, worst_case, currency)
      values ((p_write -> 'reserve' ->> 'call_id')::uuid, p_worker, v_run.id, p_epoch, p_conversation, v_run.session,
              v_run.principal, p_write -> 'reserve' ->> 'model', (p_write -> 'reserve' ->> 'worst_case')::numeric,
              p_write -> 'reserve' ->> 'currency');
  end if;
  if v_finish is null then
    update runs set step = coalesce((p_write ->> 'step')::integer, step), stage = coalesce(p_write ->> 'stage', stage),
                    keep = coalesce(p_write ->> 'keep', keep), last_write = (p_write ->> 'id')::uuid
      where id = v_run.id;
    return json_build_object('status', 'stored', 'more', true);
  end if;

  if coalesce((v_finish ->> 'drop')::boolean, false) then
    update messages set dropped = true where run = v_run.id;
  end if;
  update runs set state = v_finish ->> 'state', outcome = v_finish -> 'outcome', terminal = v_finish ->> 'terminal',
                  finished_at = now(), last_write = (p_write ->> 'id')::uuid
    where id = v_run.id;
  if v_finish ? 'session' then
    update sessions set context_tokens = (v_finish -> 'session' ->> 'context_tokens')::bigint,
                        model = v_finish -> 'session' ->> 'model',
                        warned = (v_finish -> 'session' ->> 'warned')::boolean,
                        compact_above = (v_finish -> 'session' ->> 'compact_above')::bigint,
                        pending_warning = coalesce(v_finish -> 'session' ->> 'pending_warning', pending_warning),
                        updated_at = now()
      where id = v_run.session;
  end if;
  if v_finish ? 'compaction' then
    update sessions set summary = v_finish -> 'compaction' ->> 'summary',
                        live_from = (v_finish -> 'compaction' ->> 'live_from')::integer,
                        compaction_count = compaction_count + 1, context_tokens = 0, warned = false, compact_above = 0,
                        pending_warning = null, updated_at = now()
      where id = v_run.session;
    insert into events (conversation, session, run, type, payload)
      values (p_conversation, v_run.session, v_run.id, 'compaction', (v_finish -> 'compaction') - 'summary');
  end if;
  insert into events (conversation, session, run, type, payload)
    values (p_conversation, v_run.session, v_run.id, 'run_' || (v_finish ->> 'state'), coalesce(v_finish -> 'event', '{}'));
  -- A row in the same line: it survives whoever wrote it. One is enough, however many answers before it ask for one.
  if v_finish ? 'compact' and not exists (select 1 from runs where conversation = p_conversation and kind = 'compact'
                                          and state in ('accepted', 'running', 'waiting')) then
    update conversations set last_ordinal = last_ordinal + 1 where key = p_conversation returning * into v_conversation;
    insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message, deadline_at)
      values ((v_finish ->> 'compact')::uuid, p_conversation, v_conversation.last_ordinal, 'compact', 'accepted', 'system',
              'full', v_run.principal, v_run.sender, '{}', now() + interval '1 hour');
  end if;
  v_more := exists (select 1 from runs where conversation = p_conversation and ordinal > v_run.ordinal
                    and state in ('accepted', 'running', 'waiting'));
  if not v_more then
    update conversations set owner = null where key = p_conversation;
  end if;
  return json_build_object('status', 'stored', 'more', v_more);
end $$;

-- Gives a conversation back unworked; the attempt does not count.
create function lucyd_hand_back(p_worker uuid, p_conversation text, p_epoch bigint) returns boolean language plpgsql as $$
begin
  update conversations set owner = null where key = p_conversation and epoch = p_epoch and owner = p_worker;
  if not found then
    return false;
  end if;
  update runs set attempts = greatest(attempts - 1, 0)
    where conversation = p_conversation and epoch = p_epoch and state = 'running';
  return true;
end $$;

-- Ends a worker that was seen not to beat, or that says goodbye. Returns the conversations that may be claimed now, or null
-- when this worker had ended before, or has beaten meanwhile.
create function lucyd_fence(p_worker uuid, p_beat bigint, p_state text) returns text[] language plpgsql as $$
declare
  v_freed text[];
begin
  perform 1 from workers where id = p_worker and state in ('alive', 'draining') and (p_beat is null or beat = p_beat)
    for update;
  if not found then
    return null;
  end if;
  update workers set state = p_state, ended_at = now() where id = p_worker;
  v_freed := array(select key from conversations where owner = p_worker order by key);
  -- A row that somebody has locked keeps its owner: a claim looks at the owner's state, so it is free all the same.
  with free as (
    select key from conversations where owner = p_worker order by key for no key update skip locked
  )
  update conversations c set owner = null from free where c.key = free.key;
  -- Calls that were out. One that a write under way reserves at this moment is found by the scheduler later.
  perform lucyd_settle_unknown(array(
    select call_id from reservations where worker = p_worker and settled_at is null order by call_id for update));
  insert into events (type, payload)
    values ('worker_' || p_state, json_build_object('worker', p_worker, 'conversations', v_freed));
  return v_freed;
end $$;

-- Closes the open session. Overtakes: the run in hand is cancelled, what waits is answered in the new session.
create function lucyd_reset(p_conversation text, p_run uuid, p_source text, p_sender text, p_reason text)
returns json language plpgsql as $$
declare
  v_conversation conversations;
  v_session uuid;
  v_run runs;
  v_cancelled uuid[] := '{}';
begin
  select * into v_conversation from conversations where key = p_conversation for no key update;
  if not found then
    return json_build_object('reset', false);
  end if;
  if exists (select 1 from runs where id = p_run) then
    return json_build_object('reset', true, 'session', (select session from runs where id = p_run), 'cancelled', '[]'::json);
  end if;
  update sessions set closed_at = now() where conversation = p_conversation and closed_at is null returning id into v_session;
  if v_session is null then
    return json_build_object('reset', false);
  end if;
  update conversations set owner = null, epoch = epoch + 1, last_ordinal = last_ordinal + 1
    where key = p_conversation returning * into v_conversation;
  for v_run in
    update runs set state = 'cancelled', finished_at = now(), terminal = epoch || '-18446744073709551615',
                    outcome = jsonb_build_object('state', 'cancelled', 'run_id', id, 'session_id', session,
                                                 'error', p_reason, 'reply', '')
      where conversation = p_conversation and state in ('running', 'waiting') returning *
  loop
    perform lucyd_close_history(v_run, p_reason);  -- the closed session is still read
    v_cancelled := v_cancelled || v_run.id;
  end loop;
  insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message, session, outcome,
                    deadline_at, finished_at, published_at)
    values (p_run, p_conversation, v_conversation.last_ordinal, 'reset', 'done', p_source, 'full', v_conversation.principal,
            p_sender, '{}', v_session, '{}', now(), now(), now());
  insert into events (conversation, session, run, type) values (p_conversation, v_session, p_run, 'session_closed');
  return json_build_object('reset', true, 'session', v_session, 'cancelled', array_to_json(v_cancelled));
end $$;

-- Leaves no tool call without a result and no question hanging when a run is ended by somebody else than its owner.
create function lucyd_close_history(p_run runs, p_reason text) returns void language plpgsql as $$
declare
  v_ordinal integer;
begin
  if p_run.session is null then
    return;
  end if;
  if p_run.stage <> 'tools' and p_run.step = 0 then
    update messages set dropped = true where run = p_run.id;
    return;
  end if;
  update sessions set last_ordinal = last_ordinal + case when p_run.stage = 'tools' then 2 else 1 end, updated_at = now()
    where id = p_run.session returning last_ordinal into v_ordinal;
  if p_run.stage = 'tools' then
    insert into messages (session, ordinal, run, role, body)
      select p_run.session, v_ordinal - 1, p_run.id, 'tool_results', jsonb_build_object('role', 'tool_results', 'results',
        (select jsonb_agg(jsonb_build_object('tool_use_id', call ->> 'id', 'is_error', true, 'content',
                'Error: the run ended before a result was known (' || p_reason || ').'))
         from jsonb_array_elements(m.body -> 'tool_calls') as call))
      from messages m where m.run = p_run.id order by m.ordinal desc limit 1;
  end if;
  insert into messages (session, ordinal, run, role, body)
    values (p_run.session, v_ordinal, p_run.id, 'assistant',
            jsonb_build_object('role', 'assistant', 'text', '[Stopped: ' || p_reason || ']'));
end $$;

-- Fails runs whose time is over, whoever holds them; the epoch fences the holder. Returns their ids. A conversation that
-- somebody has locked is passed over, and met again a second later: it must not hold up the deadlines of all the others.
create function lucyd_expire(p_limit integer, p_reason text) returns json language plpgsql as $$
declare
  v_due record;
  v_run runs;
  v_ids uuid[] := '{}';
begin
  for v_due in
    select due.id, due.conversation from (
      select r.id, r.conversation, r.ordinal from runs r join conversations c on c.key = r.conversation
      where r.deadline_at < now() and r.state in ('accepted', 'running')
      order by r.deadline_at limit p_limit for no key update of c skip locked
    ) as due order by due.conversation, due.ordinal
  loop
    update runs set state = 'failed', finished_at = now(), terminal = epoch || '-18446744073709551615',
                    outcome = jsonb_build_object('state', 'failed', 'run_id', id, 'session_id', session,
                                                 'error', p_reason, 'reply', '')
      where id = v_due.id and state in ('accepted', 'running') and deadline_at < now() returning * into v_run;
    if found then
      perform lucyd_close_history(v_run, p_reason);
      v_ids := v_ids || v_due.id;
      update conversations set owner = null, epoch = epoch + 1
        where key = v_due.conversation and exists (select 1 from runs where id = v_due.id and epoch = conversations.epoch);
      insert into events (conversation, run, type, payload)
        values (v_due.conversation, v_due.id, 'run_failed', json_build_object('reason', 'deadline'));
    end if;
  end loop;
  return coalesce(array_to_json(v_ids), '[]');
end $$;
