-- A client that asked for it takes its run along when it hangs up, unless the run answers somebody else, too. Whether it does is
-- decided under the lock that every merge takes: decided before, a message could be taken in meanwhile, and end with the run.

-- lucyd_cancel for such a run; `shared` of one that was merged, or took another one in.
create function lucyd_hang_up(p_run uuid, p_reason text) returns json language plpgsql as $$
declare
  v_conversation text;
begin
  select conversation into v_conversation from runs where id = p_run;
  perform 1 from conversations where key = v_conversation for no key update;
  if exists (select 1 from runs where id = p_run and merged_into is not null or merged_into = p_run) then
    return json_build_object('status', 'shared', 'conversation', v_conversation, 'run', p_run);
  end if;
  return lucyd_cancel(p_run, p_reason, false);
end $$;
