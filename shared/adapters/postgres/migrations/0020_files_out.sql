-- Files that go out to people. Their bytes are rows of `blobs`, like those of what comes in; a delivery, an outcome and a stream
-- name them and never hold them.
--
-- The body of a delivery with a file is {text, file: {blob, name, media_type, size, as}}: its text stands below the file, and
-- `as` is how the channel is to show it: photo, voice, audio, video or document.

create table reply_files (           -- written by lucyd_act_send_file
  run      uuid not null references runs (id) on delete cascade,
  position integer not null,         -- from 1, in the order in which they were sent
  file     jsonb not null,           -- {blob, name, media_type, size, as}
  primary key (run, position)
);
comment on table reply_files is 'Files that an agent sends with the reply of a run. They go out, and stand in its outcome, when the run ends.';

-- Retention asks by it whether somebody is yet to send these bytes.
create index deliveries_file on deliveries ((body #>> '{file,blob}')) where body ? 'file';

-- As in 0003; a part is a text, or the whole body of a delivery.
create or replace function lucyd_add_parts(p_run runs, p_channel text, p_kind text, p_parts jsonb) returns void
language sql as $$
  insert into deliveries (run, conversation, channel, ordinal, part, kind, body)
    select p_run.id, p_run.conversation, p_channel, p_run.ordinal,
           (select coalesce(max(part), 0) from deliveries
            where conversation = p_run.conversation and ordinal = p_run.ordinal) + p.position,
           p_kind, case jsonb_typeof(p.part) when 'string' then jsonb_build_object('text', p.part) else p.part end
    from jsonb_array_elements(p_parts) with ordinality as p (part, position)
    where lucyd_is_carried(p_channel);
$$;

-- As lucyd_deliveries_claim in 0004. A bridge that can't send files says so: where one stands first, the conversation waits for
-- a bridge that can.
create function lucyd_deliveries_claim_2(
  p_channel text, p_bridge uuid, p_epoch bigint, p_in_hand uuid[], p_limit integer, p_files boolean
) returns json language plpgsql as $$
declare
  v_claimed json;
begin
  -- As in lucyd_claim: no claim slips in behind the back of a fence, nor of a new leader.
  perform 1 from workers where id = p_bridge and state = 'alive' for key share;
  if not found then
    return null;
  end if;
  perform 1 from channel_leaders where channel = p_channel and bridge = p_bridge and epoch = p_epoch for share;
  if not found then
    return null;
  end if;
  -- Claimed, but the answer got lost on its way: nobody has begun to send it.
  update deliveries set state = 'pending', bridge = null
    where channel = p_channel and state = 'sending' and bridge = p_bridge and id <> all(p_in_hand);
  with heads as (
    select distinct on (conversation) id, state, due_at, body ? 'file' as has_file from deliveries
    where channel = p_channel and state in ('pending', 'sending')
    order by conversation, ordinal, part, beside, created_at
  ), due as (
    select h.id from heads h join deliveries d using (id)
    where h.state = 'pending' and h.due_at <= now() and h.id <> all(p_in_hand) and (p_files or not h.has_file)
      and not exists (
      select 1 from deliveries o
      where o.channel = p_channel and o.conversation = d.conversation and o.state = 'sending')
    order by h.due_at limit p_limit
  ), taken as (
    update deliveries d set state = 'sending', bridge = p_bridge, bridge_epoch = p_epoch, attempts = d.attempts + 1
      from due where d.id = due.id and d.state = 'pending' returning d.*
  )
  select coalesce(json_agg(json_build_object('id', id, 'conversation', conversation, 'kind', kind, 'body', body,
                                             'attempt', attempts, 'run', run)), '[]') into v_claimed from taken;
  return v_claimed;
end $$;

create or replace function lucyd_deliveries_claim(
  p_channel text, p_bridge uuid, p_epoch bigint, p_in_hand uuid[], p_limit integer
) returns json language sql as $$
  select lucyd_deliveries_claim_2(p_channel, p_bridge, p_epoch, p_in_hand, p_limit, false);
$$;

-- Keeps the bytes of a file that a run may come to send. Nothing refers to them yet: what was never sent goes in its time, like
-- all of that run. Tried again before anything refers to them, they are what they are now.
create function lucyd_keep_blob(p_id uuid, p_run uuid, p_type text, p_name text, p_voice boolean, p_data bytea) returns void
language sql as $$
  insert into blobs (id, run, position, content_type, filename, is_voice, size, data)
    values (p_id, p_run, 0, p_type, p_name, p_voice, octet_length(p_data), p_data)
    on conflict (id) do update
      set content_type = excluded.content_type, filename = excluded.filename, is_voice = excluded.is_voice,
          size = excluded.size, data = excluded.data
      where not exists (select 1 from reply_files f where f.run = p_run and f.file ->> 'blob' = p_id::text);
$$;

-- The act of `send_file`: the file, whose bytes are kept already, is one of the reply's. p_arguments: {blob, name, media_type,
-- size, as}.
create function lucyd_act_send_file(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
declare
  v_run uuid := (p_context ->> 'run')::uuid;
  v_count integer;
begin
  if exists (select 1 from children where run = v_run) then
    return jsonb_build_object('error', 'a sub-agent has nobody to send files to; say in your answer where the file is');
  end if;
  select count(*) into v_count from reply_files where run = v_run;
  if v_count >= 10 then
    return jsonb_build_object('error', 'this reply has 10 files already, and may not have more');
  end if;
  insert into reply_files (run, position, file) values (v_run, v_count + 1, p_arguments);
  return jsonb_build_object('text', format('Attached %s: it goes out with your reply.', p_arguments ->> 'name'));
end $$;

-- As in 0014; the files of the reply go out behind its text, whatever the end of the run, but not after a cancel.
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
  v_files jsonb := '[]';
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
    if p_state <> 'cancelled' then
      select coalesce(jsonb_agg(file order by position), '[]') into v_files from reply_files where run = p_run.id;
    end if;
    if v_files <> '[]' then
      v_outcome := v_outcome || jsonb_build_object('attachments', (
        select jsonb_agg(jsonb_build_object('filename', f.file -> 'name', 'content_type', f.file -> 'media_type',
                                            'size', f.file -> 'size') order by f.position)
        from jsonb_array_elements(v_files) with ordinality as f (file, position)));
    end if;
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
    perform lucyd_add_parts(
      p_run, p_conversation.channel, 'reply', coalesce(v_parts, '[]') || v_doubts || coalesce((
        select jsonb_agg(jsonb_build_object('text', '', 'file', f.file) order by f.position)
        from jsonb_array_elements(v_files) with ordinality as f (file, position)), '[]'));
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
        'notices', nullif(v_outcome -> 'notices', '[]'), 'attachments', v_outcome -> 'attachments'))
        || case when r.message -> 'notify_meta' <> 'null' then jsonb_build_object('notify_meta', r.message -> 'notify_meta')
                else '{}' end
    from runs r where (r.id = p_run.id or r.merged_into = p_run.id) and r.webhook is not null order by r.ordinal;
  return v_outcome;
end $$;
