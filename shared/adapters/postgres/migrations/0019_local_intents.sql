-- An act in Postgres that was intended and has no result has not happened. Code of the releases that have no acts would call it
-- in doubt, or end the run with it, so it leaves such a run to others.

-- Those who write intents hold their conversation and ask for more: a moment in which none does, or again.
do $$
begin
  for v_try in 1 .. 1000 loop
    begin
      perform set_config('lock_timeout', case when v_try <= 20 then '200ms' else '5s' end, true);
      lock table effects in share row exclusive mode;
      exit;
    exception when lock_not_available or deadlock_detected then
      perform pg_sleep(0.1);
    end;
  end loop;
  perform set_config('lock_timeout', '0', true);
end $$;
lock table effects in share row exclusive mode;

-- Whoever goes on with a run in which an act was intended must know what class `local` means: version 4 does.
create function lucyd_mark_local() returns trigger language plpgsql as $$
begin
  update runs set needs = 4 where id = new.run and needs < 4;
  return null;
end $$;
create trigger effects_mark_local after insert on effects
  for each row when (new.class = 'local') execute function lucyd_mark_local();
