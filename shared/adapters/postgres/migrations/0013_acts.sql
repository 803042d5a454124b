-- What an agent's tools change in Postgres alone: act and result are one transaction, so no crash leaves one in doubt.

-- Carries out one call of class `local` under its claim. `p_name` is the act: the function `lucyd_act_<name>(p_context jsonb,
-- p_arguments jsonb) returns jsonb` does it, and answers `{"text": ...}` or `{"error": ...}`, with `wake` (conversations) and
-- `nudge` (channels) where somebody is to look once this is committed. Asked again, it gives the result that is there.
create function lucyd_act(
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
  if v_effect.state <> 'intended' then
    return json_build_object('status', 'done', 'said', v_effect.result -> 'said');
  end if;
  execute format('select %I($1, $2)', 'lucyd_act_' || p_name) into v_said using
    jsonb_build_object(
      'key', p_run || ':' || p_step || ':' || p_call_index, 'run', p_run, 'conversation', p_conversation,
      'session', v_run.session, 'ordinal', v_run.ordinal, 'principal', v_run.principal, 'sender', v_run.sender,
      'source', v_run.source, 'tier', v_run.tier, 'channel', v_conversation.channel, 'contact', v_conversation.contact),
    p_arguments;
  update effects set state = 'done', ended_at = now(), epoch = p_epoch, result = jsonb_strip_nulls(jsonb_build_object(
      'tool_use_id', call_id, 'content', coalesce('Error: ' || (v_said ->> 'error'), v_said ->> 'text', ''),
      'is_error', case when v_said ? 'error' then true end, 'said', v_said))
    where run = p_run and step = p_step and call_index = p_call_index;
  return json_build_object('status', 'done', 'said', v_said);
end $$;

-- As in 0006; an act in Postgres that has no result has not happened, and nobody is told of it.
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
