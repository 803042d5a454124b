-- Suspects, waiting, merging, cancelling, what was told, and what goes out: the tables, and the transactions that know them.
--
-- lucyd_*_2 replace the functions of 0002 for code from this release on. The old names stay a release longer and lead to the
-- new ones; a run that old code must not touch says so in `needs`.

alter table runs
  add column urgent        boolean not null default false,  -- interrupts: it stands before all that was not begun
  add column suspected_by  uuid,                            -- the worker whose death raised `suspected` last
  add column waiting_since timestamptz,                     -- the deadline pauses from here on
  add column retries       integer not null default 0,      -- provider requests tried again, over all waits
  add column cancel_reason text,
  add column webhook       text,                            -- where its outcome is posted to, by name; the address is configuration
  add column retry_of      uuid,
  add column dismissed_at  timestamptz;                     -- somebody has looked at this dead run
create index runs_cancel on runs (cancel_asked_at) where state = 'running' and cancel_asked_at is not null;
create index runs_merged on runs (merged_into) where merged_into is not null;
create index runs_waiting on runs (conversation) where state = 'waiting';
create index runs_suspected on runs (suspected_by) where suspected_by is not null;
create index runs_dead on runs (finished_at) where state = 'dead' and dismissed_at is null;

create table run_steps (             -- written by store: what clients were told, so that every event id can be resumed
  run       uuid not null references runs (id) on delete cascade,
  step      integer not null,
  epoch     bigint not null,
  events    jsonb not null,          -- [[sequence of the event id, type, data]], neighbouring pieces of text as one
  stored_at timestamptz not null default now(),
  primary key (run, step, epoch)
);
create index run_steps_age on run_steps (stored_at);

create table approvals (             -- written by store (asked), accept and decide (decided), conclude (void)
  id           uuid primary key,
  run          uuid not null references runs (id) on delete cascade,
  conversation text not null,
  step         integer not null,
  call_index   integer not null,
  tool         text not null,
  args_hash    bytea not null,       -- what was asked about is what is run
  question     text not null,
  state        text not null default 'pending' check (state in ('pending', 'allowed', 'denied', 'void')),
  answer       text,
  decided_by   text,
  asked_at     timestamptz not null default now(),
  decided_at   timestamptz,
  unique (run, step, call_index)
);
create index approvals_pending on approvals (run) where state = 'pending';

create table deliveries (            -- made by conclude and store; sent by the bridge of the channel
  id           uuid primary key default gen_random_uuid(),
  run          uuid references runs (id) on delete cascade,
  conversation text not null,
  channel      text not null,
  ordinal      bigint not null,      -- of its run; order is (ordinal, part)
  part         integer not null,
  kind         text not null default 'reply' check (kind in ('reply', 'notice', 'question')),
  body         jsonb not null,       -- {text}
  state        text not null default 'pending'
                 check (state in ('pending', 'sending', 'sent', 'in_doubt', 'failed', 'dropped')),
  attempts     integer not null default 0,
  due_at       timestamptz not null default now(),
  bridge       uuid,
  bridge_epoch bigint not null default 0,
  external_id  text,
  error        text,
  created_at   timestamptz not null default now(),
  sent_at      timestamptz,
  unique (conversation, ordinal, part)
) with (fillfactor = 80);
create index deliveries_open on deliveries (channel, due_at) where state in ('pending', 'sending');
create index deliveries_run on deliveries (run);

create table webhooks (              -- made by conclude; sent by the gateways
  id         uuid primary key default gen_random_uuid(),
  run        uuid not null references runs (id) on delete cascade,
  target     text not null,
  body       jsonb not null,
  state      text not null default 'pending' check (state in ('pending', 'sending', 'sent', 'dead', 'dropped')),
  attempts   integer not null default 0,
  due_at     timestamptz not null default now(),
  sender     uuid,
  claimed_at timestamptz,
  last_status integer,
  error      text,
  created_at timestamptz not null default now(),
  sent_at    timestamptz
) with (fillfactor = 80);
create index webhooks_open on webhooks (due_at) where state in ('pending', 'sending');
create index webhooks_run on webhooks (run);

-- Whether somebody carries a channel's messages out. Callers over HTTP fetch theirs.
create function lucyd_is_carried(p_channel text) returns boolean language sql immutable as $$
  select p_channel not in ('http', 'cli', 'system')
$$;

-- As in 0002, but the reservation before the cost: who settles what is unknown locks in this order, and the other way round
-- the two could wait for each other. A reservation that was never stored, for a call that was never made, leaves nothing.
create or replace function lucyd_settle(p_settle jsonb) returns void language sql as $$
  update reservations set settled_at = now() where call_id = (p_settle ->> 'call_id')::uuid and settled_at is null;
  insert into costs (call_id, run, conversation, session, principal, call_type, provider, model, input_tokens,
                     output_tokens, cache_read_tokens, cache_write_tokens, rate_input, rate_output, rate_cache_read,
                     rate_cache_write, cost, currency, estimated, latency_ms)
    select call_id, run, conversation, session, principal, call_type, provider, model, input_tokens,
           output_tokens, cache_read_tokens, cache_write_tokens, rate_input, rate_output, rate_cache_read,
           rate_cache_write, cost, currency, coalesce(estimated, false), latency_ms
    from jsonb_populate_record(null::costs, p_settle)
    where cost > 0 or input_tokens + output_tokens + cache_read_tokens + cache_write_tokens > 0
      or exists (select 1 from reservations r where r.call_id = (p_settle ->> 'call_id')::uuid)
    on conflict (call_id) do nothing;
$$;

create function lucyd_add_parts(p_run runs, p_channel text, p_kind text, p_parts jsonb) returns void language sql as $$
  insert into deliveries (run, conversation, channel, ordinal, part, kind, body)
    select p_run.id, p_run.conversation, p_channel, p_run.ordinal,
           (select coalesce(max(part), 0) from deliveries
            where conversation = p_run.conversation and ordinal = p_run.ordinal) + p.position,
           p_kind, jsonb_build_object('text', p.text)
    from jsonb_array_elements_text(p_parts) with ordinality as p (text, position)
    where lucyd_is_carried(p_channel);
$$;

-- The one end of a run, whoever brings it about; the caller holds the conversation's lock. What is still merely intended is in
-- doubt from here on, and that is said. Everything that goes out because of the end is made here. Returns the outcome as it is
-- stored. `p_parts` are the texts for the channel, null: the reason, when there is one to tell.
create function lucyd_conclude(p_run runs, p_state text, p_outcome jsonb, p_terminal text, p_parts jsonb)
returns jsonb language plpgsql as $$
declare
  v_outcome jsonb := p_outcome;
  v_parts jsonb := p_parts;
  v_doubt record;
  v_sentence text;
  v_doubts jsonb := '[]';
  v_channel text;
begin
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
  update runs set state = p_state, outcome = v_outcome, terminal = p_terminal, finished_at = now(), wait_reason = null,
                  wake_at = null where id = p_run.id;
  update approvals set state = 'void', decided_at = now() where run = p_run.id and state = 'pending';
  update runs set outcome = v_outcome || jsonb_build_object('run_id', id, 'merged_into', p_run.id), terminal = p_terminal,
                  finished_at = now()
    where merged_into = p_run.id and finished_at is null;
  if p_run.kind <> 'message' then
    return v_outcome;
  end if;
  select channel into v_channel from conversations where key = p_run.conversation;
  if v_parts is null and p_state in ('failed', 'dead') and v_outcome ->> 'error' is not null then
    v_parts := jsonb_build_array(v_outcome ->> 'error');
  end if;
  perform lucyd_add_parts(p_run, v_channel, 'reply', coalesce(v_parts, '[]') || v_doubts);
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

-- Ends a run from outside its attempt: history is closed, the end is one sentence. The caller holds the lock, and has taken
-- the run out of its owner's hand if it was in one.
create function lucyd_end_from_outside(p_run runs, p_state text, p_reason text) returns jsonb language plpgsql as $$
begin
  perform lucyd_close_history(p_run, p_reason);
  insert into events (conversation, session, run, type, payload)
    values (p_run.conversation, p_run.session, p_run.id, 'run_' || p_state, json_build_object('reason', p_reason));
  return lucyd_conclude(
    p_run, p_state,
    jsonb_build_object('state', p_state, 'run_id', p_run.id, 'session_id', p_run.session, 'conversation',
                       p_run.conversation, 'sender', p_run.sender, 'source', p_run.source, 'error', p_reason, 'reply', '')
      || case when p_state = 'dead' then jsonb_build_object('worker', p_run.suspected_by, 'step', p_run.step) else '{}' end,
    p_run.epoch || '-18446744073709551615', null);
end $$;

-- Decides what a waiting run asked, and lets it go on when nothing is left to decide. The caller holds the lock.
create function lucyd_answer(p_run uuid, p_approval uuid, p_allows boolean, p_answer text, p_by text) returns boolean
language plpgsql as $$
begin
  update approvals set state = case when p_allows then 'allowed' else 'denied' end, answer = p_answer, decided_by = p_by,
                       decided_at = now()
    where run = p_run and state = 'pending' and (p_approval is null or id = p_approval)
      and exists (select 1 from runs where id = p_run and state = 'waiting');
  if not found then
    return false;
  end if;
  insert into events (conversation, session, run, type, payload)
    select conversation, session, id, 'run_answered', json_build_object('allowed', p_allows, 'by', p_by)
    from runs where id = p_run;
  if not exists (select 1 from approvals where run = p_run and state = 'pending') then
    update runs set wake_at = '-infinity' where id = p_run and state = 'waiting';  -- whatever the clock says
  end if;
  return true;
end $$;

-- LU003: the conversation is busy, and the caller wants to be told so instead of waiting.
create function lucyd_accept_2(
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
  select * into v_run from runs where id = p_run;
  if found then  -- the first try was committed, but its answer got lost
    return json_build_object('run', v_run.id, 'ordinal', v_run.ordinal, 'state', v_run.state, 'created', true,
                             'into', v_run.merged_into);
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
  if v_ordinal > 1 then  -- the first try may have been under way when the second one looked; now it is done
    select * into v_run from runs where id = p_run;
    if found then
      update conversations set last_ordinal = last_ordinal - 1 where key = p_conversation;
      return json_build_object('run', v_run.id, 'ordinal', v_run.ordinal, 'state', v_run.state, 'created', true,
                               'into', v_run.merged_into);
    end if;
    select * into v_head from runs where conversation = p_conversation and state in ('accepted', 'running', 'waiting')
      order by state <> 'accepted' desc, urgent desc, ordinal limit 1;
    if found then
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
            p_when_busy, p_needs, p_traceparent, now() + p_deadline, p_when_busy = 'interrupt', p_webhook, p_retry_of);
  return json_build_object('run', p_run, 'ordinal', v_ordinal, 'state', 'accepted', 'created', true, 'cancels', v_cancels);
end $$;

-- Decides one question by its id. Single use: 'resumed' or 'decided' for whoever was first, 'gone' for all others.
create function lucyd_decide(p_approval uuid, p_allows boolean, p_answer text, p_by text) returns json
language plpgsql as $$
declare
  v_approval approvals;
begin
  select * into v_approval from approvals where id = p_approval;
  if not found then
    return json_build_object('status', 'unknown');
  end if;
  perform 1 from conversations where key = v_approval.conversation for no key update;
  if not lucyd_answer(v_approval.run, p_approval, p_allows, p_answer, p_by) then
    return json_build_object('status', 'gone', 'conversation', v_approval.conversation, 'run', v_approval.run);
  end if;
  return json_build_object('conversation', v_approval.conversation, 'run', v_approval.run, 'status', case
    when exists (select 1 from approvals where run = v_approval.run and state = 'pending') then 'decided'
    else 'resumed' end);
end $$;

-- p_suspect: whether this process has room for a strong suspect (two deaths). p_alone: it was started for nothing else, and
-- may take one with three. p_debounce: how old the newest of several messages in a row must be.
create function lucyd_claim_2(
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
  v_merged uuid[] := '{}';
  v_texts jsonb;
  v_newest timestamptz;
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
  v_texts := jsonb_build_array(v_run.message -> 'text');
  v_newest := v_run.accepted_at;
  if v_run.kind = 'message' and v_run.stage = 'new' and lucyd_is_carried(v_conversation.channel) then
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
    update runs set state = 'merged', merged_into = v_run.id where id = any(v_merged);
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
  v_resumed := v_run.state = 'waiting';
  update conversations set owner = p_worker, epoch = epoch + 1, owned_at = now()
    where key = p_conversation returning * into v_conversation;

  if v_run.kind = 'message' and v_run.stage = 'new' then
    insert into messages (session, ordinal, run, role, body)
      values (v_session.id, v_session.last_ordinal + 1, v_run.id, 'user',
              jsonb_build_object('role', 'user', 'received_at', v_run.accepted_at, 'content',
                case when cardinality(v_merged) = 0 then v_run.message -> 'text'
                     else to_jsonb((select string_agg(t.text, e'\n' order by t.position)
                                    from jsonb_array_elements_text(v_texts) with ordinality as t (text, position))) end)
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
                  attempts = attempts + case when v_asked_again or v_resumed then 0 else 1 end,
                  stage = case when stage = 'new' then 'model' else stage end,
                  deadline_at = deadline_at + case when v_resumed and wait_reason <> 'retry' then now() - waiting_since else '0' end,
                  claimed_at = coalesce(claimed_at, now()), wait_reason = null, wake_at = null, waiting_since = null
    where id = v_run.id returning * into v_run;
  update runs set epoch = v_run.epoch, session = v_session.id where id = any(v_merged);
  insert into events (conversation, session, run, type, payload)
    values (p_conversation, v_session.id, v_run.id, 'run_claimed', json_build_object(
            'worker', p_worker, 'epoch', v_run.epoch, 'attempt', v_run.attempts));

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
    'messages', (select coalesce(json_agg(json_build_array(ordinal, run, body) order by ordinal), '[]') from messages
                 where session = v_session.id and ordinal >= v_from and not dropped),
    'effects', case when v_run.stage = 'tools' then
                 (select coalesce(json_agg(json_build_object('call_index', call_index, 'call_id', call_id, 'tool', tool,
                    'class', class, 'proof', proof, 'state', state, 'result', result) order by call_index), '[]')
                  from effects where run = v_run.id and step = v_run.step) end,
    'approvals', case when v_run.stage = 'tools' then
                   (select coalesce(json_agg(json_build_object('call_index', call_index, 'tool', tool, 'state', state,
                      'args_hash', encode(args_hash, 'hex'), 'answer', answer) order by call_index), '[]')
                    from approvals where run = v_run.id and step = v_run.step) end,
    'spent', case when v_begun then
               (select json_build_object('cost', coalesce(sum(cost), 0)::text, 'calls', count(*),
                  'input', coalesce(sum(input_tokens), 0), 'output', coalesce(sum(output_tokens), 0),
                  'cache_read', coalesce(sum(cache_read_tokens), 0), 'cache_write', coalesce(sum(cache_write_tokens), 0))
                from costs where run = v_run.id and not (estimated and provider = '')) end  -- what was paid, not what may be
  );
end $$;

-- Writes one step, a wait, or the end, of an attempt. Everything is optional but 'id' and 'run':
--   settle {costs row}, messages [body], intents [effect], results [{call_index, state, result}], reserve {reservation},
--   step, stage, keep, told {step, events}, absorb true, unbegun true (no call of this round was begun),
--   wait {reason, seconds, retries, approvals [..], parts [text]},
--   finish {state, outcome, terminal, drop, session {..}, compact uuid, compaction {..}, event {..}, parts [text]}
-- Answers with what was stored beyond that: 'absorbed' messages, the 'outcome' when it became another, and the 'followers'
-- that were merged into the run and ended with it.
create function lucyd_store_2(p_worker uuid, p_conversation text, p_epoch bigint, p_write jsonb)
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
      on conflict (run, step, epoch) do update set events = run_steps.events || (
        select coalesce(jsonb_agg(e.event order by e.position), '[]')
        from jsonb_array_elements(excluded.events) with ordinality as e (event, position)
        where (e.event ->> 0)::numeric > (run_steps.events -> -1 ->> 0)::numeric);
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
  v_outcome := lucyd_conclude(v_run, v_finish ->> 'state', v_finish -> 'outcome', v_finish ->> 'terminal',
                              v_finish -> 'parts');
  update runs set last_write = (p_write ->> 'id')::uuid, keep = coalesce(p_write ->> 'keep', keep) where id = v_run.id;
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
  v_more := exists (select 1 from runs where conversation = p_conversation and id <> v_run.id
                    and state in ('accepted', 'running', 'waiting'));
  if not v_more then
    update conversations set owner = null where key = p_conversation;
  end if;
  return json_build_object('status', 'stored', 'more', v_more, 'outcome', nullif(v_outcome, v_finish -> 'outcome'),
                           'followers', (select json_agg(id order by ordinal) from runs where merged_into = v_run.id));
end $$;

-- Gives a conversation back unworked; the attempt does not count. p_unbegun: of the round of calls that stands next none was
-- begun, so what was intended is as if it never was.
create function lucyd_hand_back_2(p_worker uuid, p_conversation text, p_epoch bigint, p_unbegun boolean) returns boolean
language plpgsql as $$
begin
  update conversations set owner = null where key = p_conversation and epoch = p_epoch and owner = p_worker;
  if not found then
    return false;
  end if;
  if p_unbegun then
    delete from effects e using runs r
      where r.conversation = p_conversation and r.state = 'running' and r.epoch = p_epoch and e.run = r.id
        and e.step = r.step and e.state = 'intended';
  end if;
  update runs set attempts = greatest(attempts - 1, 0)
    where conversation = p_conversation and epoch = p_epoch and state = 'running';
  insert into events (conversation, run, type, payload)
    select p_conversation, id, 'run_handed_back', json_build_object('worker', p_worker, 'epoch', p_epoch)
    from runs where conversation = p_conversation and epoch = p_epoch and state = 'running';
  return true;
end $$;

-- Ends a worker that was seen not to beat, or that says goodbye. Returns the conversations that may be claimed now, or null
-- when this worker had ended before, or has beaten meanwhile.
--
-- Who died without a drain may have been killed by what it had in hand. A first death proves little, so all of it goes on at
-- once; runs with two are taken one at a time by a process, and when one dies with such a run in hand, that one alone is
-- blamed; with three they run alone in a process of their own; the fourth is the end.
create function lucyd_fence_2(p_worker uuid, p_beat bigint, p_state text, p_reason text) returns text[]
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
  v_freed := array(select key from conversations where owner = p_worker order by key);
  -- A row that somebody has locked keeps its owner: a claim looks at the owner's state, so it is free all the same.
  v_locked := array(select key from conversations where owner = p_worker order by key for no key update skip locked);
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

-- A worker that was counted as dead and finds itself alive: it was stopped, not killed by what it had in hand.
create function lucyd_absolve(p_worker uuid) returns integer language plpgsql as $$
declare
  v_count integer;
begin
  update runs set suspected = greatest(suspected - 1, 0), suspected_by = null
    where suspected_by = p_worker and finished_at is null;
  get diagnostics v_count = row_count;
  insert into events (type, payload) values ('worker_was_alive', json_build_object('worker', p_worker, 'runs', v_count));
  return v_count;
end $$;

-- Asks a run to end. One that nobody has in hand ends here; one that is worked on is told to, and `p_force` does not wait for
-- that. A merged one stands for its leader.
create function lucyd_cancel(p_run uuid, p_reason text, p_force boolean) returns json language plpgsql as $$
declare
  v_conversation conversations;
  v_run runs;
  v_held boolean;
begin
  select * into v_run from runs where id = p_run;
  if not found then
    return json_build_object('status', 'unknown');
  end if;
  select * into v_conversation from conversations where key = v_run.conversation for no key update;
  select * into v_run from runs where id = p_run;
  if v_run.merged_into is not null then
    select * into v_run from runs where id = v_run.merged_into;
  end if;
  if v_run.state not in ('accepted', 'running', 'waiting') then
    return json_build_object('status', 'ended', 'state', v_run.state, 'conversation', v_run.conversation, 'run', v_run.id);
  end if;
  v_held := v_run.state = 'running' and v_conversation.epoch = v_run.epoch and exists (
    select 1 from workers where id = v_conversation.owner and state in ('alive', 'draining'));
  if v_held and not p_force then
    update runs set cancel_asked_at = coalesce(cancel_asked_at, now()), cancel_reason = coalesce(cancel_reason, p_reason)
      where id = v_run.id;
    if v_run.cancel_asked_at is null then
      insert into events (conversation, session, run, type)
        values (v_run.conversation, v_run.session, v_run.id, 'run_cancel_asked');
    end if;
    return json_build_object('status', 'asked', 'state', v_run.state, 'conversation', v_run.conversation, 'run', v_run.id);
  end if;
  if v_run.state = 'running' then  -- the epoch fences whoever still works on it
    update conversations set owner = null, epoch = epoch + 1 where key = v_run.conversation;
  end if;
  perform lucyd_end_from_outside(v_run, 'cancelled', coalesce(v_run.cancel_reason, p_reason));
  return json_build_object('status', 'cancelled', 'state', 'cancelled', 'conversation', v_run.conversation, 'run', v_run.id);
end $$;

-- Ends runs whose worker has not heeded a cancel for so long, whatever blocks it. Returns them with their conversations.
create function lucyd_cancel_overdue(p_older interval, p_limit integer) returns json language plpgsql as $$
declare
  v_due record;
  v_ended jsonb := '[]';
  v_done json;
begin
  for v_due in
    select r.id, r.conversation from runs r
      where r.state = 'running' and r.cancel_asked_at < now() - p_older
      order by r.conversation limit p_limit
  loop
    perform 1 from conversations where key = v_due.conversation for no key update skip locked;
    continue when not found;
    v_done := lucyd_cancel(v_due.id, 'It was cancelled.', true);
    if v_done ->> 'status' = 'cancelled' then
      v_ended := v_ended || jsonb_build_array(jsonb_build_array(v_due.id, v_due.conversation));
    end if;
  end loop;
  return v_ended;
end $$;

create function lucyd_reset_2(p_conversation text, p_run uuid, p_source text, p_sender text, p_reason text)
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
  for v_run in select * from runs where conversation = p_conversation and state in ('running', 'waiting') loop
    perform lucyd_end_from_outside(v_run, 'cancelled', p_reason);  -- the closed session is still read
    v_cancelled := v_cancelled || v_run.id;
  end loop;
  insert into runs (id, conversation, ordinal, kind, state, source, tier, principal, sender, message, session, outcome,
                    deadline_at, finished_at, published_at)
    values (p_run, p_conversation, v_conversation.last_ordinal, 'reset', 'done', p_source, 'full', v_conversation.principal,
            p_sender, '{}', v_session, '{}', now(), now(), now());
  insert into events (conversation, session, run, type) values (p_conversation, v_session, p_run, 'session_closed');
  return json_build_object('reset', true, 'session', v_session, 'cancelled', array_to_json(v_cancelled));
end $$;

-- Fails runs whose time is over, whoever holds them; the epoch fences the holder. Returns their ids. A conversation that
-- somebody has locked is passed over, and met again a second later: it must not hold up the deadlines of all the others.
create function lucyd_expire_2(p_limit integer, p_reason text) returns json language plpgsql as $$
declare
  v_due record;
  v_run runs;
  v_ids uuid[] := '{}';
begin
  for v_due in
    select due.id, due.conversation from (
      select r.id, r.conversation, r.ordinal from runs r join conversations c on c.key = r.conversation
      where r.deadline_at < now()
        and (r.state in ('accepted', 'running') or r.state = 'waiting' and r.wait_reason = 'retry')
      order by r.deadline_at limit p_limit for no key update of c skip locked
    ) as due order by due.conversation, due.ordinal
  loop
    select * into v_run from runs
      where id = v_due.id and deadline_at < now()
        and (state in ('accepted', 'running') or state = 'waiting' and wait_reason = 'retry');
    if found then
      update conversations set owner = null, epoch = epoch + 1
        where key = v_due.conversation and v_run.state = 'running' and epoch = v_run.epoch;
      perform lucyd_end_from_outside(v_run, 'failed', p_reason);
      v_ids := v_ids || v_due.id;
    end if;
  end loop;
  return coalesce(array_to_json(v_ids), '[]');
end $$;

-- Code of the release before still calls these. They do the same as the new ones, so that nothing is lost beside it.
create or replace function lucyd_claim(
  p_worker uuid, p_conversation text, p_call uuid, p_new_session uuid, p_understands integer, p_routes jsonb,
  p_cached_session uuid, p_cached_ordinal integer, p_cached_from integer
) returns json language sql as $$
  select lucyd_claim_2(p_worker, p_conversation, p_call, p_new_session, p_understands, p_routes, p_cached_session,
                       p_cached_ordinal, p_cached_from, true, false, '0');
$$;

create or replace function lucyd_store(p_worker uuid, p_conversation text, p_epoch bigint, p_write jsonb)
returns json language sql as $$
  select lucyd_store_2(p_worker, p_conversation, p_epoch, p_write);
$$;

create or replace function lucyd_hand_back(p_worker uuid, p_conversation text, p_epoch bigint) returns boolean
language sql as $$
  select lucyd_hand_back_2(p_worker, p_conversation, p_epoch, false);
$$;

create or replace function lucyd_fence(p_worker uuid, p_beat bigint, p_state text) returns text[] language sql as $$
  select lucyd_fence_2(p_worker, p_beat, p_state, 'Four processes died while they worked on this message, so it was given up.');
$$;

create or replace function lucyd_reset(p_conversation text, p_run uuid, p_source text, p_sender text, p_reason text)
returns json language sql as $$
  select lucyd_reset_2(p_conversation, p_run, p_source, p_sender, p_reason);
$$;

create or replace function lucyd_expire(p_limit integer, p_reason text) returns json language sql as $$
  select lucyd_expire_2(p_limit, p_reason);
$$;
