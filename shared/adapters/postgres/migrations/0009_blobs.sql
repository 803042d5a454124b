-- Attachments: what comes with a message beside its text. They are stored in the transaction that accepts it, stand in its
-- message by reference, and are loaded when a model is shown them.
--
-- `runs.message` has them as `attachments`: blocks of shared.domain.chat, each with words for whoever can't be shown it. Code
-- of the release before reads those words, as it would any text; runs that bring attachments need code that shows them.

create table blobs (                 -- written by accept
  id           uuid primary key,     -- made of the run's id and the position, so that it is the same for every try
  run          uuid not null references runs (id) on delete cascade,
  position     integer not null,
  content_type text not null,
  filename     text not null,
  is_voice     boolean not null,
  size         integer not null,
  data         bytea not null,
  created_at   timestamptz not null default now()
);
comment on table blobs is 'Attachments of messages, byte for byte. They go with their run, or before it when their time is over.';
alter table blobs alter column data set storage external;  -- images are compressed as they are
create index blobs_run on blobs (run);
create index blobs_age on blobs (created_at);

-- What several messages in a row say, as the content of one: their texts, a line for each; with attachments blocks, each
-- message's text before what came with it.
create function lucyd_content(p_messages jsonb) returns jsonb language sql immutable as $$
  select case when jsonb_path_exists(p_messages, '$[*].attachments') then (
    select jsonb_agg(b.block order by m.position, b.position)
    from jsonb_array_elements(p_messages) with ordinality as m (message, position)
    cross join lateral jsonb_array_elements(
      jsonb_build_array(jsonb_build_object('type', 'text', 'text', m.message -> 'text'))
      || coalesce(m.message -> 'attachments', '[]')) with ordinality as b (block, position)
  ) else (
    select to_jsonb(string_agg(m.message ->> 'text', e'\n' order by m.position))
    from jsonb_array_elements(p_messages) with ordinality as m (message, position)
  ) end
$$;

-- lucyd_accept_2 for a message with attachments, and for one that is tried again: that takes over what came with the first.
create function lucyd_accept_3(
  p_run uuid, p_conversation text, p_channel text, p_principal text, p_contact text, p_kind text, p_source text,
  p_tier text, p_sender text, p_message jsonb, p_when_busy text, p_needs integer, p_deadline interval,
  p_scope text, p_key text, p_body_hash bytea, p_key_ttl interval, p_capacity integer, p_traceparent text,
  p_webhook text, p_retry_of uuid, p_allows boolean,
  p_blobs uuid[], p_types text[], p_names text[], p_voices boolean[], p_data bytea[]
) returns json language plpgsql as $$
declare
  v_accepted json;
  v_stored integer;
  v_moved integer;
begin
  v_accepted := lucyd_accept_2(p_run, p_conversation, p_channel, p_principal, p_contact, p_kind, p_source, p_tier, p_sender,
                               p_message, p_when_busy, p_needs, p_deadline, p_scope, p_key, p_body_hash, p_key_ttl,
                               p_capacity, p_traceparent, p_webhook, p_retry_of, p_allows);
  if (v_accepted ->> 'run')::uuid <> p_run then
    return v_accepted;  -- the key is known: the run that is there has its own
  end if;
  insert into blobs (id, run, position, content_type, filename, is_voice, size, data)
    select b.id, p_run, b.position - 1, b.content_type, b.filename, b.is_voice, octet_length(b.data), b.data
    from unnest(p_blobs, p_types, p_names, p_voices, p_data)
      with ordinality as b (id, content_type, filename, is_voice, data, position)
    on conflict (id) do nothing;
  get diagnostics v_stored = row_count;
  update blobs set run = p_run where run = p_retry_of;
  get diagnostics v_moved = row_count;
  -- The text has answered what the run in hand asked. What came with it is shown to the model when that run goes on.
  if v_stored + v_moved > 0 and v_accepted ->> 'state' = 'merged' then
    update runs set message = message || '{"unshown": true}' where id = p_run;
    update runs set needs = greatest(needs, p_needs) where id = (v_accepted ->> 'into')::uuid;
  end if;
  return v_accepted;
end $$;

-- As in 0006; attachments stand in the user row, and a message with an image goes to the route `image` where there is one.
create or replace function lucyd_claim_2(
  p_worker uuid, p_conversation text, p_call uuid, p_new_session uuid, p_understands integer, p_routes jsonb,
  p_cached_session uuid, p_cached_ordinal integer, p_cached_from integer, p_suspect boolean, p_alone boolean,
  p_debounce interval
) returns json language plpgsql as $$
declare
  v_conversation conversations;
  v_run runs;
  v_other runs;
  v_session sessions;
  v_route jsonb;
  v_from integer;
  v_asked_again boolean;
  v_begun boolean;
  v_resumed boolean;
  v_fresh boolean;
  v_merged uuid[] := '{}';
  v_said jsonb;
  v_newest timestamptz;
  v_messages json;
  v_effects json;
  v_approvals json;
  v_spent json;
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
  -- What was begun first, then what interrupts, then the line.
  select * into v_run from runs where conversation = p_conversation and state in ('accepted', 'running', 'waiting')
    order by state <> 'accepted' desc, urgent desc, ordinal limit 1;
  if not found or (v_run.state = 'waiting' and (v_run.wake_at is null or v_run.wake_at > now()))
     or v_run.needs > p_understands
     or (v_run.suspected >= 3 and not p_alone) or (v_run.suspected = 2 and not p_suspect and not p_alone) then
    if v_conversation.owner is not null then
      update conversations set owner = null where key = p_conversation;
    end if;
    return json_build_object('status', case when v_run.id is null or v_run.needs > p_understands
                                              or v_run.state = 'waiting' and coalesce(v_run.wake_at > now(), true) then 'nothing'
                                            when v_run.suspected >= 3 then 'alone'
                                            when v_run.suspected = 2 then 'suspect' else 'nothing' end);
  end if;

  -- Messages in a row from one person are one question, once the last of them is old enough. Waiting holds no slot.
  v_fresh := v_run.kind = 'message' and v_run.stage = 'new';
  if v_fresh and lucyd_is_carried(v_conversation.channel) then
    v_said := jsonb_build_array(v_run.message);
    v_newest := v_run.accepted_at;
    for v_other in
      select * from runs where conversation = p_conversation and ordinal > v_run.ordinal order by ordinal limit 50
    loop
      exit when v_other.state <> 'accepted' or v_other.kind <> 'message' or v_other.sender <> v_run.sender
             or v_other.urgent or v_other.needs > p_understands or v_other.source <> v_run.source or v_other.tier <> v_run.tier
             or v_other.ordinal <> v_run.ordinal + cardinality(v_merged) + 1;
      v_merged := v_merged || v_other.id;
      v_said := v_said || jsonb_build_array(v_other.message);
      v_newest := greatest(v_newest, v_other.accepted_at);
    end loop;
    if v_newest <= now() and v_newest + p_debounce > now() then  -- a clock that was set back holds nobody up
      if v_conversation.owner is not null then
        update conversations set owner = null where key = p_conversation;
      end if;
      return json_build_object('status', 'later', 'seconds', extract(epoch from v_newest + p_debounce - now()));
    end if;
  end if;

  if v_fresh then
    update sessions set last_ordinal = last_ordinal + 1, updated_at = now()
      where conversation = p_conversation and closed_at is null returning * into v_session;
  else
    select * into v_session from sessions where conversation = p_conversation and closed_at is null;
  end if;
  if not found then
    insert into sessions (id, conversation, contact, last_ordinal)
      values (p_new_session, p_conversation, v_conversation.contact, v_fresh::integer) returning * into v_session;
    insert into events (conversation, session, run, type) values (p_conversation, v_session.id, v_run.id, 'session_opened');
  end if;
  -- A run that is already in this worker's hand: the answer to its claim got lost, or Postgres was away for long.
  v_asked_again := v_conversation.owner is not distinct from p_worker and v_run.state = 'running' and v_run.epoch = v_conversation.epoch;
  v_begun := v_run.stage <> 'new';
  v_resumed := v_run.state = 'waiting';
  v_conversation.epoch := v_conversation.epoch + 1;
  update conversations set owner = p_worker, epoch = v_conversation.epoch, owned_at = now() where key = p_conversation;

  if v_fresh then
    insert into messages (session, ordinal, run, role, body)
      values (v_session.id, v_session.last_ordinal, v_run.id, 'user',
              jsonb_build_object('role', 'user', 'received_at', v_run.accepted_at, 'content',
                case when cardinality(v_merged) > 0 then lucyd_content(v_said)
                     when v_run.message ? 'attachments' then lucyd_content(jsonb_build_array(v_run.message))
                     else v_run.message -> 'text' end)
                || case when v_session.pending_warning is null then '{}'
                        else jsonb_build_object('warning', v_session.pending_warning) end);
    if v_session.pending_warning is not null then
      update sessions set pending_warning = null where id = v_session.id;
    end if;
  end if;
  if v_asked_again then
    -- The reservations of that earlier claim: nobody knows their call ids any more, so nobody else will settle them. Most
    -- were never used, for the worker never heard of the claim. But one that gave up on a step, because Postgres stayed
    -- away, asks again just so, and its call went out. The rows of both look alike, so the guess is on the dear side.
    perform lucyd_settle_unknown(array(
      select call_id from reservations
      where worker = p_worker and run = v_run.id and call_id <> p_call and settled_at is null order by call_id));
  end if;
  v_route := coalesce(
    case when p_routes ? 'image' and exists (
      select 1 from messages where run = v_run.id and role = 'user' and jsonb_path_exists(
        body, '$.content[*] ? (@.type == "blob" && @.content_type starts with "image/")')) then p_routes -> 'image' end,
    p_routes -> v_run.kind, p_routes -> v_run.source, p_routes -> '*');
  if v_run.stage <> 'tools' then
    insert into reservations (call_id, worker, run, epoch, conversation, session, principal, model, worst_case, currency)
      values (p_call, p_worker, v_run.id, v_conversation.epoch, p_conversation, v_session.id, v_run.principal,
              v_route ->> 'model', (v_route ->> 'worst_case')::numeric, v_route ->> 'currency')
      on conflict (call_id) do update set epoch = excluded.epoch;
  end if;
  v_run.epoch := v_conversation.epoch;
  if not v_asked_again and not v_resumed then
    v_run.attempts := v_run.attempts + 1;
  end if;
  if v_run.stage = 'new' then
    v_run.stage := 'model';
  end if;
  if v_resumed and v_run.wait_reason <> 'retry' then
    v_run.deadline_at := v_run.deadline_at + (now() - v_run.waiting_since);
  end if;
  update runs set state = 'running', epoch = v_run.epoch, session = v_session.id, attempts = v_run.attempts,
                  stage = v_run.stage, deadline_at = v_run.deadline_at, claimed_at = coalesce(claimed_at, now()),
                  wait_reason = null, wake_at = null, waiting_since = null
    where id = v_run.id;
  if cardinality(v_merged) > 0 then
    update runs set state = 'merged', merged_into = v_run.id, epoch = v_run.epoch, session = v_session.id
      where id = any(v_merged);
  end if;
  insert into events (conversation, session, run, type, payload)
    values (p_conversation, v_session.id, v_run.id, 'run_claimed', json_build_object(
            'worker', p_worker, 'epoch', v_run.epoch, 'attempt', v_run.attempts));

  v_from := v_session.live_from;
  if p_cached_session = v_session.id and p_cached_from = v_session.live_from then
    v_from := p_cached_ordinal + 1;
  end if;
  select coalesce(json_agg(json_build_array(ordinal, run, body) order by ordinal), '[]') into v_messages from messages
    where session = v_session.id and ordinal >= v_from and not dropped;
  if v_run.stage = 'tools' then
    select coalesce(json_agg(json_build_object('call_index', call_index, 'call_id', call_id, 'tool', tool, 'class', class,
             'proof', proof, 'state', state, 'result', result) order by call_index), '[]') into v_effects
      from effects where run = v_run.id and step = v_run.step;
    select coalesce(json_agg(json_build_object('call_index', call_index, 'tool', tool, 'state', state,
             'args_hash', encode(args_hash, 'hex'), 'answer', answer) order by call_index), '[]') into v_approvals
      from approvals where run = v_run.id and step = v_run.step;
  end if;
  if v_begun then  -- what was paid, not what may be
    select json_build_object('cost', coalesce(sum(cost), 0)::text, 'calls', count(*),
             'input', coalesce(sum(input_tokens), 0), 'output', coalesce(sum(output_tokens), 0),
             'cache_read', coalesce(sum(cache_read_tokens), 0), 'cache_write', coalesce(sum(cache_write_tokens), 0))
      into v_spent from costs where run = v_run.id and not (estimated and provider = '');
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
      'time_left', extract(epoch from v_run.deadline_at - now()), 'retries', v_run.retries,
      'cancel_asked', case when v_run.cancel_asked_at is not null then coalesce(v_run.cancel_reason, '') end,
      'suspected', v_run.suspected, 'traceparent', v_run.traceparent),
    'route', v_route,
    'session', json_build_object(
      'id', v_session.id, 'created_at', v_session.created_at, 'last_ordinal', v_session.last_ordinal,
      'live_from', v_session.live_from, 'summary', v_session.summary, 'compaction_count', v_session.compaction_count,
      'context_tokens', v_session.context_tokens, 'warned', v_session.warned,
      'compact_above', v_session.compact_above),
    'from', v_from,
    'messages', v_messages,
    'effects', v_effects,
    'approvals', v_approvals,
    'spent', v_spent
  );
end $$;

-- As in 0006; what is taken in brings its attachments, unless whoever stores does not understand them.
create or replace function lucyd_store_2(p_worker uuid, p_conversation text, p_epoch bigint, p_write jsonb)
returns json language plpgsql as $$
declare
  v_conversation conversations;
  v_run runs;
  v_other runs;
  v_finish jsonb := p_write -> 'finish';
  v_wait jsonb := p_write -> 'wait';
  v_outcome jsonb;
  v_count integer;
  v_ordinal integer;
  v_until bigint;
  v_absorbed jsonb := '[]';
  v_body jsonb;
  v_more boolean;
  v_held boolean;
  v_after jsonb := v_finish -> 'session';
  v_lonely boolean;
  -- Code of the release before says only that it absorbs, not what it understands.
  v_understands integer := case when jsonb_typeof(p_write -> 'absorb') = 'number' then (p_write ->> 'absorb')::integer else 2 end;
begin
  -- Whoever needs both locks the conversation first and a reservation second, here and everywhere.
  select * into v_conversation from conversations where key = p_conversation for no key update;
  if p_write ? 'settle' then  -- before any check: what was bought is owed, by whoever bought it
    perform lucyd_settle(p_write -> 'settle');
  end if;
  select * into v_run from runs where id = (p_write ->> 'run')::uuid;
  v_held := v_conversation.epoch = p_epoch and v_conversation.owner is not distinct from p_worker and v_run.state = 'running';
  -- Stored before; only its answer got lost. Nobody may go on from a step whose claim was lost meanwhile.
  if v_run.last_write = (p_write ->> 'id')::uuid and (v_held or v_finish is not null or v_wait is not null) then
    return json_build_object('status', 'stored', 'more', v_conversation.owner is not distinct from p_worker,
      'outcome', nullif(v_run.outcome, v_finish -> 'outcome'),
      'followers', case when v_run.finished_at is not null then
        (select json_agg(id order by ordinal) from runs where merged_into = v_run.id) end,
      'absorbed', case when p_write ? 'absorb' then
        (select coalesce(jsonb_agg(body order by ordinal), '[]') from messages
         where run = v_run.id and role = 'user' and ordinal > (select max(ordinal) from messages
                                                               where run = v_run.id and role = 'tool_results')) end);
  end if;
  if not v_held then
    return json_build_object('status', 'lost');
  end if;

  if p_write ->> 'stage' not in ('new', 'model', 'tools') then
    raise exception 'no stage of ours: %', p_write ->> 'stage' using errcode = 'check_violation';
  end if;
  v_count := coalesce(jsonb_array_length(p_write -> 'messages'), 0);
  if v_after is not null then
    update sessions set last_ordinal = last_ordinal + v_count, context_tokens = (v_after ->> 'context_tokens')::bigint,
                        model = v_after ->> 'model', warned = (v_after ->> 'warned')::boolean,
                        compact_above = (v_after ->> 'compact_above')::bigint,
                        pending_warning = coalesce(v_after ->> 'pending_warning', pending_warning), updated_at = now()
      where id = v_run.session returning last_ordinal into v_ordinal;
  elsif v_count > 0 then
    update sessions set last_ordinal = last_ordinal + v_count, updated_at = now()
      where id = v_run.session returning last_ordinal into v_ordinal;
  end if;
  for v_position in 0 .. v_count - 1 loop
    v_body := p_write -> 'messages' -> v_position;
    if v_body ->> 'role' in ('user', 'assistant', 'tool_results') then
      insert into messages (session, ordinal, run, role, body)
        values (v_run.session, v_ordinal - v_count + v_position + 1, v_run.id, v_body ->> 'role', v_body);
    else
      raise exception 'no role of ours: %', v_body ->> 'role' using errcode = 'check_violation';
    end if;
  end loop;
  if p_write ? 'intents' then
    insert into effects (run, step, call_index, call_id, tool, class, args_hash, proof, state, epoch)
      select v_run.id, coalesce((p_write ->> 'step')::integer, v_run.step), e.call_index, e.call_id, e.tool, e.class,
             decode(e.args_hash, 'hex'), e.proof, 'intended', p_epoch
      from jsonb_to_recordset(p_write -> 'intents')
        as e (call_index integer, call_id text, tool text, class text, args_hash text, proof jsonb);
  end if;
  if p_write ? 'results' then
    update effects as f set state = e.state, result = e.result, epoch = p_epoch, ended_at = now()
      from jsonb_to_recordset(p_write -> 'results') as e (call_index integer, state text, result jsonb)
      where f.run = v_run.id and f.step = v_run.step and f.call_index = e.call_index and f.state = 'intended';
    insert into events (conversation, session, run, type, payload)
      select p_conversation, v_run.session, v_run.id, 'effect_in_doubt',
             jsonb_build_object('tool', f.tool, 'step', f.step, 'call_index', f.call_index)
      from jsonb_to_recordset(p_write -> 'results') as e (call_index integer, state text)
      join effects f on f.run = v_run.id and f.step = v_run.step and f.call_index = e.call_index
      where e.state = 'in_doubt';
  end if;
  if p_write ? 'unbegun' then
    delete from effects where run = v_run.id and step = v_run.step and state = 'intended';
  end if;
  if p_write ? 'reserve' then
    insert into reservations (call_id, worker, run, epoch, conversation, session, principal, model, worst_case, currency)
      values ((p_write -> 'reserve' ->> 'call_id')::uuid, p_worker, v_run.id, p_epoch, p_conversation, v_run.session,
              v_run.principal, p_write -> 'reserve' ->> 'model', (p_write -> 'reserve' ->> 'worst_case')::numeric,
              p_write -> 'reserve' ->> 'currency');
  end if;
  if p_write ? 'told' then
    insert into run_steps (run, step, epoch, events)
      values (v_run.id, (p_write -> 'told' ->> 'step')::integer, p_epoch, p_write -> 'told' -> 'events')
      on conflict (run, step, epoch) do nothing;
    if not found then
      update run_steps as s set events = s.events || (
          select coalesce(jsonb_agg(e.event order by e.position), '[]')
          from jsonb_array_elements(p_write -> 'told' -> 'events') with ordinality as e (event, position)
          where (e.event ->> 0)::numeric > (s.events -> -1 ->> 0)::numeric)
        where s.run = v_run.id and s.step = (p_write -> 'told' ->> 'step')::integer and s.epoch = p_epoch;
    end if;
  end if;

  if v_wait is not null and v_run.cancel_asked_at is not null then  -- nobody would look at the cancel again
    update runs set last_write = (p_write ->> 'id')::uuid, keep = coalesce(p_write ->> 'keep', keep),
                    step = coalesce((p_write ->> 'step')::integer, step), stage = coalesce(p_write ->> 'stage', stage)
      where id = v_run.id returning * into v_run;
    v_outcome := lucyd_end_from_outside(v_run, 'cancelled', coalesce(v_run.cancel_reason, ''));
    v_more := exists (select 1 from runs where conversation = p_conversation and state in ('accepted', 'running', 'waiting'));
    if not v_more then
      update conversations set owner = null where key = p_conversation;
    end if;
    return json_build_object('status', 'stored', 'more', v_more, 'outcome', v_outcome,
                             'followers', (select json_agg(id order by ordinal) from runs where merged_into = v_run.id));
  end if;
  if v_wait is not null then
    update runs set state = 'waiting', wait_reason = v_wait ->> 'reason', waiting_since = now(),
                    wake_at = now() + make_interval(secs => (v_wait ->> 'seconds')::double precision),
                    retries = coalesce((v_wait ->> 'retries')::integer, retries), needs = greatest(needs, 2),
                    step = coalesce((p_write ->> 'step')::integer, step), stage = coalesce(p_write ->> 'stage', stage),
                    keep = coalesce(p_write ->> 'keep', keep), last_write = (p_write ->> 'id')::uuid
      where id = v_run.id returning * into v_run;
    insert into approvals (id, run, conversation, step, call_index, tool, args_hash, question)
      select a.id, v_run.id, p_conversation, v_run.step, a.call_index, a.tool, decode(a.args_hash, 'hex'), a.question
      from jsonb_to_recordset(v_wait -> 'approvals')
        as a (id uuid, call_index integer, tool text, args_hash text, question text)
      on conflict (run, step, call_index) do update  -- asked anew: what was answered was about something else
        set id = excluded.id, tool = excluded.tool, args_hash = excluded.args_hash, question = excluded.question,
            state = 'pending', answer = null, decided_by = null, asked_at = now(), decided_at = null;
    perform lucyd_add_parts(v_run, v_conversation.channel, 'question', coalesce(v_wait -> 'parts', '[]'));
    insert into events (conversation, session, run, type, payload)
      values (p_conversation, v_run.session, v_run.id, 'run_waiting', jsonb_build_object(
              'reason', v_wait -> 'reason', 'seconds', v_wait -> 'seconds'));
    update conversations set owner = null where key = p_conversation;
    return json_build_object('status', 'stored', 'more', false);
  end if;

  if v_finish is null then
    -- What came with an answer is shown as soon as the calls that it was about have their results.
    if p_write ? 'absorb' and v_conversation.last_ordinal > v_run.ordinal then
      for v_other in
        select * from runs where merged_into = v_run.id and message ? 'unshown' order by ordinal
      loop
        v_body := jsonb_build_object('role', 'user', 'content', lucyd_content(jsonb_build_array(v_other.message)),
                                     'received_at', v_other.accepted_at);
        update sessions set last_ordinal = last_ordinal + 1, updated_at = now()
          where id = v_run.session returning last_ordinal into v_ordinal;
        insert into messages (session, ordinal, run, role, body)
          values (v_run.session, v_ordinal, v_run.id, 'user', v_body);
        update runs set message = message - 'unshown' where id = v_other.id;
        v_absorbed := v_absorbed || v_body;
      end loop;
    end if;
    -- A steering text is taken in between two turns, with what stood before it in the line.
    if p_write ? 'absorb' and v_run.cancel_asked_at is null then  -- what interrupts a run must not end with it
      select max(ordinal) into v_until from runs
        where conversation = p_conversation and state = 'accepted' and kind = 'message' and when_busy = 'steer'
          and ordinal > v_run.ordinal;
      for v_other in
        select * from runs where conversation = p_conversation and state = 'accepted' and kind = 'message'
          and ordinal > v_run.ordinal and ordinal <= v_until order by ordinal
      loop
        exit when v_other.source <> v_run.source or v_other.tier <> v_run.tier or v_other.urgent or v_other.needs > v_understands;
        v_body := jsonb_build_object('role', 'user', 'received_at', v_other.accepted_at, 'content',
                                     case when v_other.message ? 'attachments'
                                          then lucyd_content(jsonb_build_array(v_other.message))
                                          else v_other.message -> 'text' end);
        update sessions set last_ordinal = last_ordinal + 1, updated_at = now()
          where id = v_run.session returning last_ordinal into v_ordinal;
        insert into messages (session, ordinal, run, role, body)
          values (v_run.session, v_ordinal, v_run.id, 'user', v_body);
        update runs set state = 'merged', merged_into = v_run.id, epoch = p_epoch, session = v_run.session
          where id = v_other.id;
        v_absorbed := v_absorbed || v_body;
      end loop;
    end if;
    update runs set step = coalesce((p_write ->> 'step')::integer, step), stage = coalesce(p_write ->> 'stage', stage),
                    keep = coalesce(p_write ->> 'keep', keep), last_write = (p_write ->> 'id')::uuid
      where id = v_run.id;
    return json_build_object('status', 'stored', 'more', true, 'absorbed', v_absorbed);
  end if;

  if coalesce((v_finish ->> 'drop')::boolean, false) then
    update messages set dropped = true where run = v_run.id;
  end if;
  if p_write ? 'intents' then
    v_run.last_write := (p_write ->> 'id')::uuid;
  end if;
  v_outcome := lucyd_conclude(v_run, v_conversation, v_finish ->> 'state', v_finish -> 'outcome', v_finish ->> 'terminal',
                              v_finish -> 'parts', (p_write ->> 'id')::uuid, p_write ->> 'keep');
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
  -- Whatever stands beside or behind a run has a later ordinal; only what interrupts may have overtaken an earlier one.
  v_lonely := v_conversation.last_ordinal = v_run.ordinal;
  v_more := (not v_lonely or v_run.urgent) and exists (
    select 1 from runs where conversation = p_conversation and id <> v_run.id and state in ('accepted', 'running', 'waiting'));
  if not v_more then
    update conversations set owner = null where key = p_conversation;
  end if;
  if v_lonely then
    return json_build_object('status', 'stored', 'more', v_more, 'outcome', nullif(v_outcome, v_finish -> 'outcome'));
  end if;
  return json_build_object('status', 'stored', 'more', v_more, 'outcome', nullif(v_outcome, v_finish -> 'outcome'),
                           'followers', (select json_agg(id order by ordinal) from runs where merged_into = v_run.id));
end $$;
