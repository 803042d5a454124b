-- The same transactions for less: a run costs Postgres a third less than it did.
--
-- What a transaction costs is neither rows nor indexes but the number of its statements: each is prepared to be executed,
-- with all its expressions, and cleared away again, which takes longer than what it does. So what can't apply is not asked
-- for (a run that never stored a step has no effects), one row is updated once, and what is known is not read again.

-- Old processes are at work meanwhile, and their transactions take these tables in different orders (an accept reads runs first,
-- a step ends with them). So whoever waits here lets go of everything before Postgres finds a circle and ends one of them; only
-- when that does not help (a vacuum gives way to none but those who wait for long) it waits as long as it takes to be heard.
do $$
begin
  for v_try in 1 .. 1000 loop
    begin
      perform set_config('lock_timeout', case when v_try <= 20 then '200ms' else '5s' end, true);
      lock table workers, conversations, runs, sessions, messages, run_steps in access exclusive mode;
      lock table events in share update exclusive mode;
      exit;
    exception when lock_not_available or deadlock_detected then
      perform pg_sleep(0.1);
    end;
  end loop;
  perform set_config('lock_timeout', '0', true);
end $$;
lock table workers, conversations, runs, sessions, messages, run_steps in access exclusive mode;

-- Foreign keys that the transactions imply: the parent is a row that the same transaction has locked or written, and parents
-- of this kind are never deleted (workers: only those that own nothing and have ended, which can't claim). Each was a query
-- of its own with every insert, and a lock written into the parent.
alter table runs drop constraint runs_conversation_fkey, drop constraint runs_session_fkey;
alter table messages drop constraint messages_session_fkey;
alter table conversations drop constraint conversations_owner_fkey;

-- Steps go with their run all the same, whoever deletes it.
alter table run_steps drop constraint run_steps_run_fkey;
create function lucyd_forget_steps() returns trigger language plpgsql as $$
begin
  delete from run_steps where run in (select id from gone);
  return null;
end $$;
create trigger runs_forget_steps after delete on runs referencing old table as gone
  for each statement execute function lucyd_forget_steps();

-- Who owns a conversation changes with each claim and each end; only a fence asks for it, and finds it by the open runs: who
-- owns has one. Without the index both updates leave all indexes alone.
drop index conversations_owned;

-- The words that a column may hold are checked by the functions, which alone write them: as constraints they are parsed anew
-- with every insert and every update.
alter table runs drop constraint runs_kind_check, drop constraint runs_state_check, drop constraint runs_when_busy_check,
                 drop constraint runs_stage_check;
alter table messages drop constraint messages_role_check;

-- What nobody ever asks for by its value needs no statistics. To sort documents was most of the work of an ANALYZE, and tables
-- that are written so much are analyzed all the time.
alter table runs alter column message set statistics 0, alter column outcome set statistics 0;
alter table messages alter column body set statistics 0;
alter table run_steps alter column events set statistics 0;
alter table events alter column payload set statistics 0;

-- As in 0003, prepared once instead of at every call.
create or replace function lucyd_settle(p_settle jsonb) returns void language plpgsql as $$
declare
  v_cost costs := jsonb_populate_record(null::costs, p_settle);
begin
  update reservations set settled_at = now() where call_id = v_cost.call_id and settled_at is null;
  if not found and v_cost.cost = 0
     and v_cost.input_tokens + v_cost.output_tokens + v_cost.cache_read_tokens + v_cost.cache_write_tokens = 0
     and not exists (select 1 from reservations where call_id = v_cost.call_id) then
    return;
  end if;
  insert into costs (call_id, run, conversation, session, principal, call_type, provider, model, input_tokens,
                     output_tokens, cache_read_tokens, cache_write_tokens, rate_input, rate_output, rate_cache_read,
                     rate_cache_write, cost, currency, estimated, latency_ms)
    values (v_cost.call_id, v_cost.run, v_cost.conversation, v_cost.session, v_cost.principal, v_cost.call_type,
            v_cost.provider, v_cost.model, v_cost.input_tokens, v_cost.output_tokens, v_cost.cache_read_tokens,
            v_cost.cache_write_tokens, v_cost.rate_input, v_cost.rate_output, v_cost.rate_cache_read,
            v_cost.rate_cache_write, v_cost.cost, v_cost.currency, coalesce(v_cost.estimated, false), v_cost.latency_ms)
    on conflict (call_id) do nothing;
end $$;

-- The answer to an accept whose first try was committed; the ordinal that this try has drawn is given back.
create function lucyd_accepted_before(p_run uuid, p_conversation text) returns json language plpgsql as $$
declare
  v_run runs;
begin
  select * into v_run from runs where id = p_run;
  update conversations set last_ordinal = last_ordinal - 1 where key = p_conversation;
  return json_build_object('run', v_run.id, 'ordinal', v_run.ordinal, 'state', v_run.state, 'created', true,
                           'into', v_run.merged_into);
end $$;

-- Several texts as one, a line for each.
create function lucyd_lines(p_texts jsonb) returns text language sql immutable as $$
  select string_agg(t.text, e'\n' order by t.position)
  from jsonb_array_elements_text(p_texts) with ordinality as t (text, position)
$$;

-- As in 0003. `p_conversation` is its row, as it is under the lock; `p_write` and `p_keep` go into the run with its end. A run
-- that never stored anything has no effects and no questions, and whatever was merged into a run has a later ordinal.
create function lucyd_conclude(
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
  if p_run.kind <> 'message' then
    return v_outcome;
  end if;
  if lucyd_is_carried(p_conversation.channel) then
    if v_parts is null and p_state in ('failed', 'dead') and v_outcome ->> 'error' is not null then
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

-- Whatever a worker of the release before had begun goes on as it was begun, and ends with this.
create or replace function lucyd_conclude(p_run runs, p_state text, p_outcome jsonb, p_terminal text, p_parts jsonb)
returns jsonb language plpgsql as $$
declare
  v_conversation conversations;
begin
  select * into v_conversation from conversations where key = p_run.conversation;
  p_run.last_write := coalesce(p_run.last_write, p_run.id);  -- it may have stored intents a moment ago
  return lucyd_conclude(p_run, v_conversation, p_state, p_outcome, p_terminal, p_parts, null, null);
end $$;

-- As in 0003.
create or replace function lucyd_end_from_outside(p_run runs, p_state text, p_reason text) returns jsonb language plpgsql as $$
declare
  v_conversation conversations;
begin
  select * into v_conversation from conversations where key = p_run.conversation;
  perform lucyd_close_history(p_run, p_reason);
  insert into events (conversation, session, run, type, payload)
    values (p_run.conversation, p_run.session, p_run.id, 'run_' || p_state, json_build_object('reason', p_reason));
  return lucyd_conclude(
    p_run, v_conversation, p_state,
    jsonb_build_object('state', p_state, 'run_id', p_run.id, 'session_id', p_run.session, 'conversation',
                       p_run.conversation, 'sender', p_run.sender, 'source', p_run.source, 'error', p_reason, 'reply', '')
      || case when p_state = 'dead' then jsonb_build_object('worker', p_run.suspected_by, 'step', p_run.step) else '{}' end,
    p_run.epoch || '-18446744073709551615', null, null, null);
end $$;

-- As in 0003; that the first try was committed is found when the run is inserted, or before it would be refused.
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
  if p_kind not in ('message', 'compact') or p_when_busy not in ('queue', 'steer', 'interrupt', 'reject') then
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

-- As in 0003; the history is only read, and what an interrupted run did is only asked for when it was interrupted.
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
  v_texts jsonb;
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
    v_texts := jsonb_build_array(v_run.message -> 'text');
    v_newest := v_run.accepted_at;
    for v_other in
      select * from runs where conversation = p_conversation and ordinal > v_run.ordinal order by ordinal limit 50
    loop
      exit when v_other.state <> 'accepted' or v_other.kind <> 'message' or v_other.sender <> v_run.sender
             or v_other.urgent or v_other.needs > p_understands or v_other.source <> v_run.source or v_other.tier <> v_run.tier
             or v_other.ordinal <> v_run.ordinal + cardinality(v_merged) + 1;
      v_merged := v_merged || v_other.id;
      v_texts := v_texts || jsonb_build_array(v_other.message -> 'text');
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
                case when cardinality(v_merged) = 0 then v_run.message -> 'text'
                     else to_jsonb(lucyd_lines(v_texts)) end)
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
  v_route := coalesce(p_routes -> v_run.kind, p_routes -> v_run.source, p_routes -> '*');
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

-- As in 0003, in fewer statements.
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
    -- A steering text is taken in between two turns, with what stood before it in the line.
    if p_write ? 'absorb' and v_run.cancel_asked_at is null then  -- what interrupts a run must not end with it
      select max(ordinal) into v_until from runs
        where conversation = p_conversation and state = 'accepted' and kind = 'message' and when_busy = 'steer'
          and ordinal > v_run.ordinal;
      for v_other in
        select * from runs where conversation = p_conversation and state = 'accepted' and kind = 'message'
          and ordinal > v_run.ordinal and ordinal <= v_until order by ordinal
      loop
        exit when v_other.source <> v_run.source or v_other.tier <> v_run.tier or v_other.urgent or v_other.needs > 2;
        v_body := jsonb_build_object('role', 'user', 'content', v_other.message -> 'text',
                                     'received_at', v_other.accepted_at);
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

-- As in 0003; what a worker owns is found by the open runs.
create or replace function lucyd_fence_2(p_worker uuid, p_beat bigint, p_state text, p_reason text) returns text[]
language plpgsql as $$
declare
  v_worker workers;
  v_freed text[];
  v_locked text[];
  v_strong boolean;
  v_run runs;
begin
  select * into v_worker from workers
    where id = p_worker and state in ('alive', 'draining') and (p_beat is null or beat = p_beat) for update;
  if not found then
    return null;
  end if;
  update workers set state = p_state, ended_at = now() where id = p_worker;
  v_freed := array(select c.key from conversations c where c.owner = p_worker and c.key in (
    select r.conversation from runs r where r.state in ('accepted', 'running', 'waiting')) order by c.key);
  -- A row that somebody has locked keeps its owner: a claim looks at the owner's state, so it is free all the same.
  v_locked := array(select key from conversations where key = any(v_freed) and owner = p_worker
                    order by key for no key update skip locked);
  if p_state = 'fenced' and v_worker.state = 'alive' then
    v_strong := exists (select 1 from runs where conversation = any(v_locked) and state = 'running' and suspected >= 2);
    for v_run in
      update runs set suspected = suspected + 1, suspected_by = p_worker
        where conversation = any(v_locked) and state = 'running' and (not v_strong or suspected >= 2) returning *
    loop
      insert into events (conversation, session, run, type, payload)
        values (v_run.conversation, v_run.session, v_run.id, 'run_suspected', json_build_object(
                'worker', p_worker, 'level', v_run.suspected));
      if v_run.suspected >= 4 then
        perform lucyd_end_from_outside(v_run, 'dead', p_reason);
      end if;
    end loop;
  end if;
  update conversations set owner = null where key = any(v_locked);
  -- Calls that were out. One that a write under way reserves at this moment is found by the scheduler later.
  perform lucyd_settle_unknown(array(
    select call_id from reservations where worker = p_worker and settled_at is null order by call_id for update));
  insert into events (type, payload)
    values ('worker_' || p_state, json_build_object('worker', p_worker, 'conversations', v_freed));
  return v_freed;
end $$;
