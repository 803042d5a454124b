-- What was read out of attachments before a model sees a message: it takes the place of what was said of them, once.

-- Under the claim of the run, the user row with the attachment `p_blob` gets `p_content`, and is marked so that an heir does
-- not do it again. `stored`; `known`: it was done before, and stays as it is; `lost`: the claim is somebody else's.
create function lucyd_prepared(
  p_worker uuid, p_conversation text, p_epoch bigint, p_run uuid, p_blob uuid, p_content jsonb
) returns text language plpgsql as $$
declare
  v_conversation conversations;
  v_run runs;
begin
  select * into v_conversation from conversations where key = p_conversation for no key update;
  select * into v_run from runs where id = p_run;
  if v_conversation.epoch is distinct from p_epoch or v_conversation.owner is distinct from p_worker
     or v_run.state is distinct from 'running' then
    return 'lost';
  end if;
  update messages set body = body || jsonb_build_object('content', p_content, 'prepared', true)
    where session = v_run.session and run = p_run and role = 'user' and not body ? 'prepared'
      and body -> 'content' @> jsonb_build_array(jsonb_build_object('type', 'blob', 'id', p_blob));
  return case when found then 'stored' else 'known' end;
end $$;
