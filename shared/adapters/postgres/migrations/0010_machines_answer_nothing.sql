-- A notice of a machine may meet a run that waits for its person: it is no answer, and stands in line like any other message.

-- As in 0003; who says neither yes nor no (p_allows is null) decides nothing.
create or replace function lucyd_answer(p_run uuid, p_approval uuid, p_allows boolean, p_answer text, p_by text)
returns boolean language plpgsql as $$
begin
  if p_allows is null then
    return false;
  end if;
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
