-- What a person is told without having asked: a run of the kind `outbound`, which stands in their line like any other. A worker
-- carries it out without a model, so it costs nothing; what it says stands in the session, and its deliveries are its own.
-- `lucyd_send_out` stays for code of the release before, and for what is told at a later time.

-- As in 0006; what goes out is accepted, too.
create or replace function lucyd_accept_2(
  p_run uuid, p_conversation text, p_channel text, p_principal text, p_contact text, p_kind text, p_source text,
  p_tier text, p_sender text, p_message jsonb, p_when_busy text, p_needs integer, p_deadline interval,
  p_scope text, p_key text, p_body_hash bytea, p_key_ttl interval, p_capacity integer, p_traceparent text,
  p_webhook text, p_retry_of uuid, p_allows boolean
) returns json language plpgsql as $$
declare
  v_ordinal bigint;
  v_run runs;
  v_head runs;
  v_key idempotency;
  v_cancels uuid;
begin
  if p_kind not in ('message', 'compact', 'outbound') or p_when_busy not in ('queue', 'steer', 'interrupt', 'reject') then
    raise exception 'neither a kind nor a manner of ours: %, %', p_kind, p_when_busy using errcode = 'check_violation';
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
                               'created', v_run.id = p_run, 'into', v_run.merged_into);
    end if;
  end if;
  insert into conversations as c (key, channel, principal, contact, last_ordinal)
    values (p_conversation, p_channel, p_principal, p_contact, 1)
    on conflict (key) do update set last_ordinal = c.last_ordinal + 1, contact = excluded.contact
    returning last_ordinal into v_ordinal;
  if v_ordinal > 1 then
    select * into v_head from runs where conversation = p_conversation and state in ('accepted', 'running', 'waiting')
      order by state <> 'accepted' desc, urgent desc, ordinal limit 1;
    if found and exists (select 1 from runs where id = p_run) then
      return lucyd_accepted_before(p_run, p_conversation);
    elsif v_head.id is not null then
      if p_when_busy = 'reject' then
        raise exception 'the conversation is busy' using errcode = 'LU003';
      end if;
      -- The asked person's next text is the answer; deciding and going on are this one transaction. However long the line:
      -- an answer waits for nothing.
      if p_kind = 'message' and v_head.state = 'waiting' and v_head.sender = p_sender and p_when_busy <> 'interrupt'
         and lucyd_answer(v_head.id, null, p_allows, p_message ->> 'text', p_sender) then
        insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message, when_busy,
                          traceparent, deadline_at, merged_into, epoch, session, webhook)
          values (p_run, p_conversation, v_ordinal, p_kind, 'merged', p_source, p_tier, p_principal, p_sender, p_message,
                  p_when_busy, p_traceparent, now() + p_deadline, v_head.id, v_head.epoch, v_head.session, p_webhook);
        return json_build_object('run', p_run, 'ordinal', v_ordinal, 'state', 'merged', 'created', true,
                                 'into', v_head.id);
      end if;
      if v_ordinal > p_capacity and (
        select count(*) from runs where conversation = p_conversation and state in ('accepted', 'running', 'waiting')
      ) >= p_capacity then
        raise exception 'too many messages wait in this conversation' using errcode = 'LU001';
      end if;
      if p_when_busy = 'interrupt' and v_head.state = 'running' then
        update runs set cancel_asked_at = coalesce(cancel_asked_at, now()),
                        cancel_reason = coalesce(cancel_reason, 'A newer message took its place.') where id = v_head.id;
        v_cancels := v_head.id;
      elsif p_when_busy = 'interrupt' and v_head.state = 'waiting' then
        perform lucyd_end_from_outside(v_head, 'cancelled', 'A newer message took its place.');
      end if;
    end if;
  end if;
  insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message, when_busy, needs,
                    traceparent, deadline_at, urgent, webhook, retry_of)
    values (p_run, p_conversation, v_ordinal, p_kind, 'accepted', p_source, p_tier, p_principal, p_sender, p_message,
            p_when_busy, p_needs, p_traceparent, now() + p_deadline, p_when_busy = 'interrupt', p_webhook, p_retry_of)
    on conflict (id) do nothing;
  if not found then
    return lucyd_accepted_before(p_run, p_conversation);
  end if;
  return json_build_object('run', p_run, 'ordinal', v_ordinal, 'state', 'accepted', 'created', true, 'cancels', v_cancels);
end $$;

-- As in 0009; for what goes out no model is called, so no money is set aside.
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
  if v_run.stage <> 'tools' and v_run.kind <> 'outbound' then
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

-- As in 0013; what an outbound run says goes to the channel. Why one has failed is for whoever sent it, not for its person.
create or replace function lucyd_conclude(
  p_run runs, p_conversation conversations, p_state text, p_outcome jsonb, p_terminal text, p_parts jsonb,
  p_write uuid, p_keep text
) returns jsonb language plpgsql as $$
declare
  v_outcome jsonb := p_outcome;
  v_parts jsonb := p_parts;
  v_doubt record;
  v_sentence text;
  v_doubts jsonb := '[]';
  v_begun boolean := p_run.last_write is not null;
  v_followed boolean := p_conversation.last_ordinal > p_run.ordinal;
begin
  if p_state not in ('done', 'failed', 'cancelled', 'dead') then
    raise exception 'no end of ours: %', p_state using errcode = 'check_violation';
  end if;
  if v_begun then
    delete from effects where run = p_run.id and state = 'intended' and class = 'local';
    for v_doubt in
      update effects set state = 'in_doubt', ended_at = now() where run = p_run.id and state = 'intended'
        returning step, call_index, tool
    loop
      v_sentence := format('I was interrupted while using ''%s'': it may or may not have happened. '
                           'I did not repeat it by myself.', v_doubt.tool);
      v_doubts := v_doubts || to_jsonb(v_sentence);
      insert into events (conversation, session, run, type, payload)
        values (p_run.conversation, p_run.session, p_run.id, 'effect_in_doubt', json_build_object(
                'tool', v_doubt.tool, 'step', v_doubt.step, 'call_index', v_doubt.call_index));
    end loop;
    if v_doubts <> '[]' then
      v_outcome := v_outcome || jsonb_build_object('notices', coalesce(v_outcome -> 'notices', '[]') || v_doubts);
    end if;
    update approvals set state = 'void', decided_at = now() where run = p_run.id and state = 'pending';
  end if;
  update runs set state = p_state, outcome = v_outcome, terminal = p_terminal, finished_at = now(), wait_reason = null,
                  wake_at = null, last_write = coalesce(p_write, last_write), keep = coalesce(p_keep, keep)
    where id = p_run.id;
  if v_followed then
    update runs set outcome = v_outcome || jsonb_build_object('run_id', id, 'merged_into', p_run.id),
                    terminal = p_terminal, finished_at = now()
      where merged_into = p_run.id and finished_at is null;
  end if;
  if p_run.kind not in ('message', 'outbound') then
    return v_outcome;
  end if;
  if lucyd_is_carried(p_conversation.channel) then
    if v_parts is null and p_run.kind = 'message' and p_state in ('failed', 'dead') and v_outcome ->> 'error' is not null then
      v_parts := jsonb_build_array(v_outcome ->> 'error');
    end if;
    perform lucyd_add_parts(p_run, p_conversation.channel, 'reply', coalesce(v_parts, '[]') || v_doubts);
  end if;
  if p_run.webhook is null and not v_followed then
    return v_outcome;
  end if;
  insert into webhooks (run, target, body)  -- those that were merged into it have callers of their own
    select r.id, r.webhook, jsonb_strip_nulls(jsonb_build_object(
        'reply', coalesce(v_outcome -> 'reply', '""'), 'session_id', p_run.session, 'sender', r.sender,
        'source', r.source, 'silent', coalesce(v_outcome -> 'silent', 'false'),
        'tokens', jsonb_build_object('input', coalesce(v_outcome -> 'tokens' -> 'input', '0'),
                                     'output', coalesce(v_outcome -> 'tokens' -> 'output', '0')),
        'run_id', r.id, 'state', p_state, 'error', v_outcome -> 'error',
        'notices', nullif(v_outcome -> 'notices', '[]')))
        || case when r.message -> 'notify_meta' <> 'null' then jsonb_build_object('notify_meta', r.message -> 'notify_meta')
                else '{}' end
    from runs r where (r.id = p_run.id or r.merged_into = p_run.id) and r.webhook is not null order by r.ordinal;
  return v_outcome;
end $$;
